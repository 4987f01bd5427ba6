"""A page from the cache, and a cart in the session."""

from django.http import HttpRequest, HttpResponse
from django.template import engines
from django.utils import timezone
from django.views.decorators.cache import cache_page

CART = engines["django"].from_string(
    """<h1>Your cart: {{ items|join:", "|default:"empty" }}</h1>
<form method="post">{% csrf_token %}<input name="item"><button>Add</button></form>
"""
)


@cache_page(600)
def catalogue(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"Apples and pears, as of {timezone.now().isoformat()}\n")


def cart(request: HttpRequest) -> HttpResponse:
    items: list[str] = request.session.get("items", [])
    if request.method == "POST":
        items = request.session["items"] = [*items, request.POST["item"]]
    return HttpResponse(CART.render({"items": items}, request))
