"""An HTTP application: GET /?name=you."""

from ray import serve
from starlette.requests import Request


@serve.deployment(num_replicas=1, ray_actor_options={"num_cpus": 0.5})
class Hello:
    def __call__(self, request: Request) -> str:
        return f"hello {request.query_params.get('name', 'world')}"


app = Hello.bind()
