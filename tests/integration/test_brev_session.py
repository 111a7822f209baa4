"""The CLI layer over the simulated Brev: real processes of a `brev` executable, from create to gone."""

import asyncio
import os
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from controller.brev import BrevSession, Credential, Homes, Slots, errors
from controller.brev.credentials import jwt_expiry
from controller.sandbox.brevsim.harness import Simulator
from controller.sandbox.brevsim.profile import Profile

TYPE = "g5.xlarge"
SENTINEL = "@@SENTINEL@@"


class Make(Protocol):
    def __call__(self, credential: Credential | None = None, **options: Any) -> BrevSession: ...


@pytest.fixture
async def brev(tmp_path: Path) -> AsyncIterator[Simulator]:
    simulator = await Simulator.start(tmp_path / "simulator", profile=Profile.instant())
    yield simulator
    alarms = await simulator.alarms()
    await simulator.stop()
    assert alarms == [], "every request and command was one that the simulator knows"


@pytest.fixture
def make(brev: Simulator, tmp_path: Path) -> Make:
    homes = Homes(tmp_path / "state", search_path=os.environ["PATH"])

    def session(credential: Credential | None = None, **options: Any) -> BrevSession:
        account = options.pop("account", "default")
        defaults: dict[str, Any] = {"homes": homes, "slots": Slots(), "executable": str(brev.cli)}
        defaults["extra_env"] = brev.env()
        login = credential or Credential("APIKey", brev.api_key, brev.org_id)
        return BrevSession(account, login, **(defaults | options))

    return session


@pytest.fixture
def session(make: Make) -> BrevSession:
    return make()


async def running(brev: Simulator, session: BrevSession, name: str = "bo-1") -> str:
    """Create a machine, wait until it is usable, refresh; returns its id."""
    await session.create(name, TYPE)
    await brev.wait_for(lambda rows: any(row["name"] == name and row["status"] == "RUNNING" for row in rows))
    await session.refresh(name)
    return next(row.id for row in await session.list() if row.name == name)


async def until(brev: Simulator, satisfied: Callable[[dict[str, Any]], bool]) -> None:
    """Wait for the simulator's call log, as exit codes by verb (None while the process runs)."""
    async with asyncio.timeout(60):
        while not satisfied({call["argv"][0]: call["rc"] for call in await brev.calls()}):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def ended(brev: Simulator, verb: str) -> None:
    """The backend has seen the end of the process: its connection broke."""
    await until(brev, lambda calls: calls.get(verb) is not None)


async def test_a_machine_from_create_to_gone(brev: Simulator, session: BrevSession, tmp_path: Path) -> None:
    assert await session.version() == "v0.6.327"
    assert await session.list() == []
    assert [each.id for each in await session.organizations()] == [brev.org_id]
    machine_id = await running(brev, session)
    [row] = await session.list()
    assert (row.name, row.status, row.instance_type) == ("bo-1", "RUNNING", TYPE)
    home = (await session.exec("bo-1", f"printf '%s\\n{SENTINEL}\\n' \"$HOME\"", 60)).split()[0]
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "a file").write_bytes(bytes(range(256)))
    await session.copy("bo-1", bundle, f"{home}/in-1")
    digest = await session.exec("bo-1", f"sha256sum < '{home}/in-1/a file'", 60)
    assert digest.startswith("40aff2e9d2d8922e47afd4648e6967497158785fbd1da870e7110266bf944880")
    await session.delete(machine_id)
    await brev.wait_for(lambda rows: rows == [])
    assert await session.list() == []
    with pytest.raises(errors.InstanceNotFound):
        await session.delete(machine_id)
    session.forget("bo-1")


async def test_the_catalog_has_prices_and_both_kinds(session: BrevSession) -> None:
    offers = await session.search()
    assert {offer.gpu_name == "-" for offer in offers} == {True, False}
    assert all(offer.price_micros is None or offer.price_micros > 0 for offer in offers)
    assert any(offer.type == TYPE and offer.price_micros for offer in offers)


async def test_exec_replays_nothing_and_asks_nobody(brev: Simulator, session: BrevSession) -> None:
    await running(brev, session)
    before = len(await brev.requests())
    with pytest.raises(errors.UnknownFailure, match="exit status 3") as caught:
        await session.exec("bo-1", f"echo {SENTINEL}; exit 3", 60)
    assert SENTINEL in caught.value.stdout
    runs = [each for each in await brev.commands() if "exit 3" in str(each)]
    assert len(runs) == 1
    assert len(await brev.requests()) == before


async def test_exec_does_not_wake_a_stopped_machine(brev: Simulator, session: BrevSession, tmp_path: Path) -> None:
    machine_id = await running(brev, session)
    await brev.event(machine_id, "stopped")
    with pytest.raises(errors.HostUnreachable):
        await session.exec("bo-1", "true", 60)
    with pytest.raises(errors.NotRunning):
        await session.copy("bo-1", tmp_path, "/x")
    with pytest.raises(errors.NotRunning):
        await session.refresh("bo-1")
    assert [row["status"] for row in await brev.machines()] == ["STOPPED"]


async def test_a_wrong_key_needs_a_login_on_every_verb(make: Make, brev: Simulator) -> None:
    session = make(Credential("APIKey", "bak-wrong", brev.org_id))
    attempts: list[Callable[[], Awaitable[object]]] = [
        session.list,
        lambda: session.create("bo-1", TYPE),
        lambda: session.delete("aaa000001"),
        lambda: session.refresh("bo-1"),
    ]
    for attempt in attempts:
        with pytest.raises(errors.AuthRequired):
            await attempt()
    assert await brev.machines() == []


@pytest.mark.parametrize("kind", ["JWT", "RefreshToken"])
async def test_a_token_login_works_too(make: Make, brev: Simulator, kind: str) -> None:
    if kind == "JWT":
        token = await brev.jwt()
        credential = Credential("JWT", token, brev.org_id, jwt_expiry(token))
    else:
        credential = Credential("RefreshToken", brev.refresh_credential, brev.org_id)
    session = make(credential)
    machine_id = await running(brev, session)
    assert SENTINEL in await session.exec("bo-1", f"echo {SENTINEL}", 60)
    await session.delete(machine_id)


async def test_what_the_service_refuses_has_its_own_error(brev: Simulator, session: BrevSession) -> None:
    await session.create("bo-1", TYPE)
    with pytest.raises(errors.DuplicateName):
        await session.create("bo-1", TYPE)
    with pytest.raises(errors.UnknownType):
        await session.create("bo-2", "no-such-type")
    await brev.settings(soldOut=[TYPE])
    with pytest.raises(errors.NoCapacity):
        await session.create("bo-2", TYPE)
    assert [row["name"] for row in await brev.machines()] == ["bo-1"]


async def test_a_hanging_list_ends_in_a_time_out_and_leaves_no_process(make: Make, brev: Simulator) -> None:
    await make().version()
    await brev.add_fault({"match": {"verb": "ls"}, "action": {"type": "hang"}})
    with pytest.raises(errors.CallTimeout):
        await make(time_scale=0.01).list()
    await ended(brev, "ls")


async def test_half_a_list_is_unknown_not_empty(brev: Simulator, session: BrevSession) -> None:
    await running(brev, session)
    await brev.add_fault({"match": {"verb": "ls"}, "action": {"type": "half_write"}})
    with pytest.raises(errors.Unparsable):
        await session.list()
    await brev.add_fault({"match": {"verb": "ls"}, "action": {"type": "exit0", "stdout": ""}})
    with pytest.raises(errors.Unparsable):
        await session.list()


@pytest.mark.parametrize("action", [{"type": "accept_then_fail", "status": 502}, {"type": "die"}])
async def test_a_create_whose_answer_is_lost_is_ambiguous_and_has_happened(
    brev: Simulator, session: BrevSession, action: dict[str, Any]
) -> None:
    await brev.add_fault({"match": {"verb": "create"}, "action": action})
    with pytest.raises(errors.BrevError) as caught:
        await session.create("bo-1", TYPE)
    assert caught.value.ambiguous
    assert [row.name for row in await session.list()] == ["bo-1"]


async def test_a_machine_that_refuses_ssh_is_unreachable_within_the_callers_time(
    brev: Simulator, session: BrevSession
) -> None:
    await running(brev, session)
    for fault in ("ssh_refused", "ssh_denied", "ssh_silent"):
        await brev.add_fault({"match": {"name": "bo-1", "every": True}, "action": {"type": fault}})
        with pytest.raises(errors.HostUnreachable):
            await session.exec("bo-1", "true", 60)
        await brev.clear_faults()
    assert SENTINEL in await session.exec("bo-1", f"echo {SENTINEL}", 60)


async def test_cancelling_an_exec_ends_its_process(brev: Simulator, session: BrevSession) -> None:
    await running(brev, session)
    task = asyncio.ensure_future(session.exec("bo-1", "sleep 600", 600))
    await until(brev, lambda calls: "exec" in calls)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await ended(brev, "exec")


@pytest.mark.case(2)
async def test_case_2_a_command_arrives_byte_for_byte_as_one_argument(brev: Simulator, session: BrevSession) -> None:
    await running(brev, session)
    words = ["it's", '"$HOME" `x` $(y)', "\\ *;|&<>", "é😀", "--", "--flag", ""]
    output = await session.exec("bo-1", f"printf '<%s>' {shlex.join(words)}", 60)
    assert output == "".join(f"<{word}>" for word in words) + "bo-1\n"
    calls = [call for call in await brev.calls() if call["argv"][0] == "exec"]
    assert all(len(call["argv"]) == 3 for call in calls)


async def test_two_accounts_see_and_reach_only_their_own_machines(make: Make, brev: Simulator) -> None:
    one = make(account="a")
    other = make(Credential("APIKey", brev.other_account_api_key, brev.other_account_org_id), account="b")
    await running(brev, one)
    await running(brev, other)
    assert await one.exec("bo-1", "pwd", 60) != await other.exec("bo-1", "pwd", 60)
    assert len(await one.list()) == len(await other.list()) == 1


async def test_a_service_account_token_never_reaches_the_service(make: Make, brev: Simulator, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("cluster credential")
    with pytest.raises(errors.CliUnsupported):
        await make(service_account_token=token).list()
    assert await brev.calls() == []
