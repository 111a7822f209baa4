"""A job whose passes are carried out as the engine does, with a machine and a runner that the test plays."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from controller.api.brevinstance import BrevInstance, InstanceOffer
from controller.api.brevjob import BrevJob, JobStatus
from controller.api.conditions import set_condition
from controller.api.cost import CostStatus
from controller.api.reasons import Reason
from controller.decide.job import decide_job
from controller.decide.types import (
    ChildState,
    Failure,
    JobObservation,
    Operation,
    OperationView,
    Plan,
    RunView,
    RunWord,
    Start,
)
from tests.builders import (
    TIMING,
    FakeClock,
    ended,
    job_obs,
    make_instance,
    make_job,
    reread,
    run_view,
    running,
)

RUNNING = run_view(RunWord.RUNNING)
ABSENT = run_view(RunWord.ABSENT, detail="nothing was adopted")


class Life:
    """A job whose passes are carried out; the test moves time and the world around it."""

    def __init__(self, **more: Any) -> None:
        self.clock = FakeClock()
        self.job: BrevJob = make_job(**more)
        self.operations: dict[Operation, OperationView] = {}
        self.child: BrevInstance | None = None
        self.more: dict[str, Any] = {}
        self.writes = 0

    @property
    def status(self) -> JobStatus:
        return self.job.status

    def observe(self) -> JobObservation:
        state = ChildState.PRESENT if self.child else ChildState.ABSENT
        defaults: Mapping[str, Any] = {"child": state, "instance": self.child, "operations": dict(self.operations)}
        return job_obs(self.clock, **{**defaults, **self.more})

    def step(self) -> Plan[JobStatus]:
        plan = decide_job(self.job, self.observe(), self.clock.now(), TIMING)
        if plan.status is not None:
            status = reread(plan.status)
            self.writes += status != self.job.status
            self.job.status = status
        for kind in plan.consumed:
            if kind in self.operations and not self.operations[kind].running:
                del self.operations[kind]
        if isinstance(plan.action, Start):
            known = self.operations.get(plan.action.operation)
            assert known is None or not known.running
            self.operations[plan.action.operation] = running(self.clock.monotonic())
        return plan

    def end(self, kind: Operation, result: Any = None, failure: Failure | None = None, failures: int = 1) -> None:
        now = self.clock.monotonic()
        self.operations[kind] = ended(now, failure, result, failures if failure else 0)

    def machine(self, ready: str = "True", reachable: str = "True", reason: str = Reason.READY) -> None:
        """The BrevInstance exists and is in this state."""
        name = self.status.attempts[-1].instance or ""
        self.child = child(name, ready, reachable, reason, self.clock)

    def run(self) -> None:
        """Up to a script that the machine says is running."""
        self.step()
        self.machine()
        self.step()
        self.end(Operation.DELIVER, run_view(RunWord.RUNNING, started_at=self.clock.now()))
        self.step()
        assert self.status.attempts[-1].started_at is not None


def child(name: str, ready: str, reachable: str, reason: str, clock: FakeClock) -> BrevInstance:
    instance = make_instance(name, uid="uid-of-child")
    instance.status.brev_name = "bo-test-iris"
    instance.status.offer = InstanceOffer(type="g5.xlarge", price_micros=1_000_000)
    instance.status.cost = CostStatus(price_micros=1_000_000, started_at=clock.now(), accrued_micros=0)
    conditions = instance.status.conditions
    stalled = "True" if ready == "False" else "False"
    for type_, value in (("Ready", ready), ("Reachable", reachable), ("Stalled", stalled)):
        set_condition(conditions, type_, value, reason, f"It is {reason}.", clock.now(), 1)  # type: ignore[arg-type]
    return instance


def started_intent() -> Life:
    life = Life()
    life.step()
    life.machine()
    life.step()
    return life


NO_ANSWER = Failure(Reason.HOST_UNREACHABLE, "No answer.", ambiguous=True)


def exited(**more: Any) -> RunView:
    return run_view(RunWord.EXITED, **{"exit_code": 0, **more})


def following(**more: Any) -> Life:
    life = Life(**more)
    life.run()
    return life


def ask(life: Life, answer: RunView | None = RUNNING, failures: int = 1) -> timedelta:
    """Wait until the next poll starts and let it end; how long that took."""
    before = life.clock.seconds
    for _ in range(50):
        if life.operations.get(Operation.POLL) and life.operations[Operation.POLL].running:
            break
        plan = life.step()
        if life.status.attempts[0].finished_at is not None:
            return timedelta(0)
        if plan.action is None:
            assert plan.requeue is not None
            assert plan.requeue > timedelta(milliseconds=500), f"a hot loop: {plan}"
            life.clock.advance(plan.requeue.total_seconds())
    else:
        raise AssertionError("no poll was started")
    took = timedelta(seconds=life.clock.seconds - before)
    if answer is None:
        life.end(Operation.POLL, failure=NO_ANSWER, failures=failures)
    else:
        life.end(Operation.POLL, answer)
    return took


def overdue() -> Life:
    life = following(spec={"deadlines": {"run": "10m"}})
    ask(life)
    life.step()
    life.clock.advance(601)
    return life
