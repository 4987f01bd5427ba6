"""Django: a cart in a session, and a cached page, outlive the server."""

import re

import pytest

from tests.examples.example import Example, Reply, Web

pytestmark = pytest.mark.timeout(300)  # of a busy machine


def cookies(reply: Reply) -> list[str]:
    return [line.partition(";")[0] for line in reply.headers.get_all("Set-Cookie", [])]


def heading(web: Web, cookie: str) -> str:
    found = re.search("<h1>(.*)</h1>", web.get("/cart/", Cookie=cookie).text)
    assert found
    return found[1]


def test_carts_and_pages_survive_a_crash(example: Example) -> None:
    web = example.serve("python manage.py runserver", "--noreload")
    page = web.get("/")
    assert page.status == 200

    form = web.get("/cart/")
    assert "Your cart: empty" in form.text
    token = re.search('name="csrfmiddlewaretoken" value="(.*?)"', form.text)
    assert token
    (cookie,) = cookies(form)
    added = web.post(
        "/cart/",
        f"item=pear&csrfmiddlewaretoken={token[1]}",
        Cookie=cookie,
        Content_Type="application/x-www-form-urlencoded",
    )
    (session,) = (each for each in cookies(added) if each.startswith("sessionid="))

    example.server.crash()
    assert heading(web, session) == "Your cart: pear"
    assert heading(web, cookie) == "Your cart: empty", "another customer"
    assert web.get("/").text == page.text

    assert example.server.client().command("FLUSHDB") == b"+OK\r\n"  # as cache.clear() does
    assert web.get("/").text != page.text
    assert heading(web, session) == "Your cart: pear"
