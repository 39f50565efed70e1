"""Fills in the addresses of this host where the orders say "auto" or nothing, and writes them with ports."""

from rayctl_keeper.host import address
from rayctl_keeper.node.groups import members


def with_addresses(orders):
    """The orders with "auto" replaced: a client that queues a job does not know the host it will run on. Raises NoAddress."""
    automatic = [name for name in ("listen", "dashboardHost") if (orders.get(name) or "").startswith("auto")]
    orders = dict(orders, advertise=orders.get("advertise") or "127.0.0.1", listen=orders.get("listen") or "127.0.0.1:0")
    if orders["advertise"] == "auto":
        several = bool(automatic) or members.largest(orders) > 1
        orders["advertise"] = address.own(orders.get("network") or "", several)
    if orders.get("dashboardHost") in (None, "", "auto"):
        orders["dashboardHost"] = orders["advertise"]
    host, _, port = orders["listen"].rpartition(":")
    if host == "auto":
        orders["listen"] = "%s:%s" % (orders["advertise"], port)
    return orders


def join(host, port):
    """host:port, with brackets around IPv6."""
    return "[%s]:%d" % (host, port) if ":" in host else "%s:%d" % (host, port)
