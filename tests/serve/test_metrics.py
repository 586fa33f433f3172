from serve.metrics import merged

PAGE = """\
# HELP ray_glong_requests HTTP requests answered
# TYPE ray_glong_requests counter
ray_glong_requests{{route="/healthz",node="{0}"}} 3.0
# HELP ray_node_cpu CPU
# TYPE ray_node_cpu gauge
ray_node_cpu 1.0
# HELP ray_serve_latency Latency
# TYPE ray_serve_latency gauge
ray_serve_latency{{node="{0}"}} 5.0
# HELP ray_serve_registered_multiplexed_model_id Ids
# TYPE ray_serve_registered_multiplexed_model_id gauge
ray_serve_registered_multiplexed_model_id{{model_id="3af"}} 1.0
"""


def test_pages_of_nodes_become_one_with_each_family_headed_once() -> None:
    page = merged([PAGE.format("a"), "", PAGE.format("b")])
    lines = page.splitlines()
    assert lines.count("# TYPE glong_requests counter") == 1
    samples = [line for line in lines if line.startswith("glong_requests{")]
    assert [('node="a"' in line, 'node="b"' in line) for line in samples] == [
        (True, False), (False, True),
    ]  # fmt: skip
    assert lines.index("# TYPE glong_requests counter") < lines.index(samples[0])
    assert "node_cpu" not in page
    assert "serve_latency" in page
    assert "model_id" not in page  # which memories are asked for
    assert page.endswith("\n")
