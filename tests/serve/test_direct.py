"""Routes with a body go the short way: the same shapes, refusals and headers as FastAPI's own."""

from malmoi.serve.app import make_app
from malmoi.serve.direct import Direct
from malmoi.serve.house import Stock
from malmoi.serve.settings import Settings
from tests.support.servers import Served, serving


def test_every_route_with_a_body_goes_the_short_way(server: Served, stock: Stock) -> None:
    app = make_app(stock, Settings()).app
    assert isinstance(app, Direct)
    document = server.get("/openapi.json").json
    posts = {path for path, methods in document["paths"].items() if "post" in methods}
    assert posts == set(app.ways) and len(posts) == 9


def test_bodies_of_another_shape_are_described(server: Served) -> None:
    cases = [
        (b'{"input": "cat"', "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b'{"input": "cat", "dimension": 3}', "dimension: no such field"),
        (b'{"input": "cat", "dimensions": "3"}', "dimensions: Input should be a valid integer"),
        (b"[]", "the body: Input should be an object"),
        (b'{"input": "\\ud800"}', "no JSON"),
        (b'{"input": "\xff"}', "no JSON"),
    ]
    for raw, message in cases:
        answer = server.ask("POST", "/v1/embeddings", raw=raw)
        assert answer.status == 422 and message in answer.json["error"]["message"]
        assert answer.json["error"]["code"] == "invalid_body"


def test_refusals_carry_the_headers_of_the_site_that_may_call(stock: Stock) -> None:
    with serving(stock, Settings(cors=("https://app.example",))) as allowed:
        for body in ({"input": "cat"}, {"input": 3}, {"input": "cat", "model": "other"}):
            answer = allowed.post("/v1/embeddings", body, origin="https://app.example")
            assert answer.headers["access-control-allow-origin"] == "https://app.example"


def test_other_methods_are_told_the_right_one(server: Served) -> None:
    answer = server.get("/v1/embeddings")
    assert answer.status == 405 and answer.headers["allow"] == "POST"
