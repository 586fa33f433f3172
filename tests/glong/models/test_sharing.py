from dataclasses import dataclass
from threading import Event, Thread

import pytest

from glong.models.sharing import SharedEngine


@dataclass
class Output:
    request_id: str
    finished: bool
    text: str = ""


class Stepper:
    """A request takes as many steps as its prompt says; notes what ran together."""

    def __init__(self, gate: Event | None = None, dies_at: int = 0) -> None:
        self.running: dict[str, list] = {}
        self.together: list[int] = []
        self.aborted: list[str] = []
        self.began = Event()
        self.gate = gate
        self.dies_at = dies_at

    def add_request(self, request_id, prompt, params, *, lora_request=None):
        if prompt == 0:
            raise ValueError("an empty prompt")
        self.running[request_id] = [prompt, f"{prompt} {params} {lora_request}"]
        return request_id

    def step(self):
        self.together.append(len(self.running))
        self.began.set()
        if self.gate:
            self.gate.wait(5)
        if len(self.together) == self.dies_at:
            raise RuntimeError("dead")
        outputs = []
        for request_id, request in list(self.running.items()):
            request[0] -= 1
            finished = request[0] == 0
            outputs.append(Output(request_id, finished, request[1]))
            if finished:
                del self.running[request_id]
        return outputs

    def abort_request(self, request_ids):
        self.aborted += request_ids
        for request_id in request_ids:
            self.running.pop(request_id, None)


def in_a_thread(call):
    """Start it; what it returned or raised is in the list when the thread ends."""
    ended: list = []

    def work():
        try:
            ended.append(call())
        except (RuntimeError, ValueError) as error:
            ended.append(error)

    thread = Thread(target=work)
    thread.start()
    return thread, ended


def two_calls(engine, first, second):
    """The second one arrives while the first one's first step runs."""
    shared = SharedEngine(engine)
    ahead, got_first = in_a_thread(lambda: shared.run(first))
    assert engine.began.wait(5)
    behind, got_second = in_a_thread(lambda: shared.run(second))
    while len(shared._arrived) < len(second):
        pass
    engine.gate.set()
    ahead.join(5)
    behind.join(5)
    return got_first[0], got_second[0]


def test_answers_come_in_the_order_of_the_requests():
    outputs = SharedEngine(Stepper()).run([(3, "a", None), (1, "b", None), (2, "c", "lora")])
    assert [output.text for output in outputs] == ["3 a None", "1 b None", "2 c lora"]


def test_nothing_asked_takes_no_step():
    engine = Stepper()
    assert SharedEngine(engine).run([]) == []
    assert engine.together == []


def test_a_second_call_joins_the_batch_of_the_first():
    engine = Stepper(gate=Event())
    first, second = two_calls(engine, [(4, "a", None)] * 2, [(6, "b", None)] * 3)
    assert [o.text for o in first] == ["4 a None"] * 2
    assert [o.text for o in second] == ["6 b None"] * 3
    # alone, then together until the first ends, then the rest: 7 steps where apart it would be 10
    assert engine.together == [2, 5, 5, 5, 3, 3, 3]


def test_a_request_that_is_refused_fails_its_own_call_alone():
    engine = Stepper(gate=Event())
    first, second = two_calls(engine, [(3, "a", None)], [(0, "b", None), (1, "b", None)])
    assert [o.text for o in first] == ["3 a None"]
    assert isinstance(second, ValueError)


def test_when_the_engine_dies_every_call_hears_of_it_and_leaves_nothing():
    engine = Stepper(gate=Event(), dies_at=2)
    shared = SharedEngine(engine)
    engine.gate.set()
    with pytest.raises(RuntimeError, match="dead"):
        shared.run([(5, "a", None), (5, "b", None)])
    assert engine.aborted == ["0", "1"]
    assert [o.text for o in shared.run([(2, "c", None)])] == ["2 c None"]
