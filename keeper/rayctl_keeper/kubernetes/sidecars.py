"""Other containers of our pods. A mesh's proxy, put there by admission, never ends by itself, and a Job ends only with all containers of its pod: so a
program that has ended asks the proxies that it knows to end, as Istio and Linkerd document it for Jobs. Where none is there nothing listens."""

import http.client
import urllib.request

QUIT = ("http://127.0.0.1:15020/quitquitquit",  # Istio's pilot-agent
        "http://127.0.0.1:4191/shutdown")  # Linkerd's proxy, as linkerd-await does it
TIMEOUT = 2.0  # seconds for each


def quit_all(urls=QUIT):
    """Asks each; it is best effort."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for url in urls:
        try:
            opener.open(url, data=b"", timeout=TIMEOUT).close()
        except (OSError, ValueError, http.client.HTTPException):
            pass  # what answers is not ours: nothing of it changes how we end
