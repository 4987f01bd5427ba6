"""Order a book: `python order.py 8` prints the id of the task, then waits for the book."""

import sys

from celery import chord

from pages import bind, render


def main(pages: int) -> None:
    book = chord(render.s(page) for page in range(1, pages + 1))(bind.s())
    print(f"ordered {book.id}", flush=True)  # it is on disk, so no crash of the server loses it
    print(book.get(timeout=600))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
