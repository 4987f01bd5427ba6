"""The till of a shop with two sites. Each till talks to the server of its own site.

HOLDFAST_URL=redis://127.0.0.1:7001 python till.py sell apple 3
HOLDFAST_URL=redis://127.0.0.1:7001 python till.py price apple 0.40
HOLDFAST_URL=redis://127.0.0.1:7001 python till.py report
"""

import argparse
import os
import sys

import holdfast
import holdfast.sync

URL = os.environ.get("HOLDFAST_URL", "redis://127.0.0.1:6379")


def sell(client: holdfast.sync.SyncClient, item: str, count: int) -> None:
    """Both sites may sell at the same time: increments add up, and no receipt is lost."""
    sale = client.transaction().add("ZINCRBY", "sold", count, item)
    sale.add("RPUSH", "receipts", f"{count} {item}").commit()


def set_price(client: holdfast.sync.SyncClient, item: str, price: str) -> None:
    """If both sites set it at the same time, the later price wins on both."""
    client.hset("prices", {item: price})


def report(client: holdfast.sync.SyncClient) -> None:
    prices = client.hgetall("prices")
    for item, count in client.zrange_withscores("sold", 0, -1):
        print(f"{item}: {count:g} sold, now at {prices.get(item, 'no price')}")
    print(f"receipts: {', '.join(client.lrange('receipts', 0, -1))}")


def main() -> None:
    parser = argparse.ArgumentParser(description="The till of a shop with two sites.")
    commands = parser.add_subparsers(dest="command", required=True)
    selling = commands.add_parser("sell", help="sell some pieces of an item")
    selling.add_argument("item")
    selling.add_argument("count", type=int)
    pricing = commands.add_parser("price", help="set the price of an item")
    pricing.add_argument("item")
    pricing.add_argument("price")
    commands.add_parser("report", help="show all sales of both sites")
    options = parser.parse_args()
    try:
        with holdfast.sync.connect(URL) as client:
            if options.command == "sell":
                sell(client, options.item, options.count)
            elif options.command == "price":
                set_price(client, options.item, options.price)
            else:
                report(client)
    except (ValueError, holdfast.HoldfastError) as error:
        sys.exit(f"till: {error}")


if __name__ == "__main__":
    main()
