"""Proxies beside our programs are asked to end. Run by `go test ./keeper`."""

import http.server
import os
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from rayctl_keeper.host.ports import free_ports
from rayctl_keeper.kubernetes import sidecars


class Proxy(http.server.BaseHTTPRequestHandler):
    """Stands for the proxies' own servers: Istio's pilot-agent and Linkerd's proxy take a POST without a body."""

    def do_POST(self):
        self.server.asked.append(self.path)
        self.send_response(200 if self.path == "/shutdown" else 404)
        self.end_headers()

    def log_message(self, *_):
        pass


class Asked(unittest.TestCase):
    def test_each_is_asked_whatever_the_others_answer(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
        server.asked = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        nobody = "http://127.0.0.1:%d/shutdown" % free_ports("127.0.0.1", 1)[0]
        here = "http://127.0.0.1:%d" % server.server_address[1]
        sidecars.quit_all((nobody, here + "/quitquitquit", here + "/shutdown"))
        self.assertEqual(server.asked, ["/quitquitquit", "/shutdown"])


if __name__ == "__main__":
    unittest.main()
