from __future__ import annotations

import base64

import pytest

from controller.api.meta import Kind, ObjectKey
from controller.kube.errors import AlreadyExists, Conflict, Expired, Forbidden, Invalid, NotFound, Unavailable
from controller.kube.transport import ATTEMPTS, Call
from tests.unit.kube.fake_api import Answer, Client, ConnectTo, FakeApi, refusal

JOB = ObjectKey(Kind.JOB, "team-a", "iris.v1")


async def test_a_status_patch_is_a_merge_patch_with_the_resource_version(api: FakeApi, client: Client) -> None:
    await client.kube.patch_status(JOB, {"phase": "Running", "old": None}, "41")
    (request,) = api.requests
    assert request.method == "PATCH"
    assert request.path == "/apis/brev.nvidia.com/v1alpha1/namespaces/team-a/brevjobs/iris.v1/status"
    assert request.headers["Content-Type"] == "application/merge-patch+json"
    assert request.body == {"metadata": {"resourceVersion": "41"}, "status": {"phase": "Running", "old": None}}
    assert request.headers["User-Agent"].startswith("brev-operator/")
    assert client.calls == [("patch", "brevjobs/status", "200")]


async def test_an_empty_status_patch_is_never_sent(api: FakeApi, client: Client) -> None:
    with pytest.raises(ValueError, match="nothing to write"):
        await client.kube.patch_status(JOB, {}, "1")
    assert api.requests == []


async def test_finalizers_are_replaced_under_the_resource_version(api: FakeApi, client: Client) -> None:
    await client.kube.set_finalizers(ObjectKey(Kind.ACCOUNT, "", "default"), [], "7")
    (request,) = api.requests
    assert request.path == "/apis/brev.nvidia.com/v1alpha1/brevaccounts/default"
    assert request.headers["Content-Type"] == "application/merge-patch+json"
    assert request.body == {"metadata": {"resourceVersion": "7", "finalizers": []}}


async def test_a_list_reads_every_page(api: FakeApi, client: Client) -> None:
    api.answers.append(Answer(body={"items": [{"n": 1}], "metadata": {"resourceVersion": "5", "continue": "t/k="}}))
    api.answers.append(Answer(body={"items": [{"n": 2}], "metadata": {"resourceVersion": "5"}}))
    assert await client.kube.list(Kind.JOB) == ([{"n": 1}, {"n": 2}], "5")
    assert [request.query for request in api.requests] == [{"limit": "500"}, {"limit": "500", "continue": "t/k="}]


async def test_a_list_whose_token_expired_starts_again_and_stays_one_snapshot(api: FakeApi, client: Client) -> None:
    first = Answer(body={"items": [{"n": 1}], "metadata": {"resourceVersion": "5", "continue": "t"}})
    api.answers += [first, refusal(410, "Expired")]
    api.answers.append(Answer(body={"items": [{"n": 9}], "metadata": {"resourceVersion": "8"}}))
    assert await client.kube.list(Kind.INSTANCE, "team-a") == ([{"n": 9}], "8")


async def test_a_list_that_expires_again_and_again_raises(api: FakeApi, client: Client) -> None:
    api.answers += [refusal(410, "Expired")] * 4
    with pytest.raises(Expired):
        await client.kube.list(Kind.JOB)
    assert len(api.requests) == 4


async def test_an_absent_object_is_none(api: FakeApi, client: Client) -> None:
    api.answers.append(refusal(404, "NotFound"))
    assert await client.kube.get(JOB) is None


async def test_delete_names_the_uid_and_background(api: FakeApi, client: Client) -> None:
    await client.kube.delete(JOB, "uid-1")
    (request,) = api.requests
    assert request.method == "DELETE"
    assert request.body["preconditions"] == {"uid": "uid-1"}
    assert request.body["propagationPolicy"] == "Background"


async def test_deleting_what_is_gone_or_replaced_is_success(api: FakeApi, client: Client) -> None:
    api.answers.append(refusal(404, "NotFound"))
    await client.kube.delete(JOB, "uid-1")
    api.answers += [refusal(409, "Conflict"), Answer(body={"metadata": {"uid": "uid-2"}})]
    await client.kube.delete(JOB, "uid-1")
    api.answers += [refusal(409, "Conflict"), refusal(404, "NotFound")]
    await client.kube.delete(JOB, "uid-1")
    assert [request.method for request in api.requests] == ["DELETE", "DELETE", "GET", "DELETE", "GET"]


async def test_a_delete_conflict_about_the_same_object_is_reported(api: FakeApi, client: Client) -> None:
    api.answers += [refusal(409, "Conflict"), Answer(body={"metadata": {"uid": "uid-1"}})]
    with pytest.raises(Conflict):
        await client.kube.delete(JOB, "uid-1")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(409, "Conflict"), Conflict),
        (refusal(409, "AlreadyExists"), AlreadyExists),
        (refusal(404, "NotFound"), NotFound),
        (refusal(403, "Forbidden"), Forbidden),
        (refusal(422, "Invalid"), Invalid),
    ],
)
async def test_a_refusal_is_final_and_not_repeated(
    api: FakeApi, client: Client, answer: Answer, error: type[Exception]
) -> None:
    api.answers.append(answer)
    with pytest.raises(error):
        await client.kube.create(Kind.INSTANCE, "team-a", {"metadata": {"name": "x"}})
    assert len(api.requests) == 1


@pytest.mark.parametrize(
    ("answer", "code"),
    [(refusal(500, "InternalError"), "500"), (refusal(429, "TooManyRequests"), "429"), (Answer(503), "503")],
)
async def test_a_server_in_trouble_is_asked_again(api: FakeApi, client: Client, answer: Answer, code: str) -> None:
    api.answers += [answer, answer]
    await client.kube.set_finalizers(JOB, ["f"], "1")
    assert [call[2] for call in client.calls] == [code, code, "200"]
    assert 0.1 <= client.delays[0] <= 0.3
    assert 0.2 <= client.delays[1] <= 0.6


async def test_patience_is_bounded(api: FakeApi, client: Client) -> None:
    api.answers += [Answer(503)] * 50
    with pytest.raises(Unavailable):
        await client.kube.get(JOB)
    assert len(api.requests) == ATTEMPTS
    assert sum(client.delays) < 6


async def test_retry_after_is_honoured_up_to_a_limit(api: FakeApi, client: Client) -> None:
    api.answers.append(Answer(429, headers={"Retry-After": "7"}))
    await client.kube.get(JOB)
    assert 7 < client.delays[0] < 8
    api.answers.append(Answer(429, headers={"Retry-After": "3600"}))
    with pytest.raises(Unavailable):
        await client.kube.get(JOB)
    assert len(client.delays) == 1


async def test_a_cut_connection_is_tried_again(api: FakeApi, client: Client) -> None:
    api.answers.append(Answer(cut_connection=True))
    await client.kube.patch_status(JOB, {"a": 1}, "1")
    assert [call[2] for call in client.calls] == ["error", "200"]


async def test_a_proxy_page_instead_of_json_is_not_an_empty_answer(api: FakeApi, client: Client) -> None:
    api.answers += [Answer(raw=b"<html>hello</html>"), Answer(raw=b"[]")] * 3
    with pytest.raises(Unavailable):
        await client.kube.list(Kind.JOB)


async def test_a_server_that_never_answers_is_a_time_out(api: FakeApi, connect_to: ConnectTo) -> None:
    client = connect_to(api.url, request_timeout=0.05)
    api.answers += [Answer(never=True)] * ATTEMPTS
    with pytest.raises(Unavailable, match=r"0\.05 s"):
        await client.kube.get(JOB)
    assert {call[2] for call in client.calls} == {"timeout"}


async def test_nobody_listening_is_unavailable(connect_to: ConnectTo) -> None:
    client = connect_to("http://127.0.0.1:1")
    with pytest.raises(Unavailable, match="cannot be reached"):
        await client.kube.get(JOB)


async def test_secrets_and_config_maps_come_decoded(api: FakeApi, client: Client) -> None:
    encoded = base64.b64encode(b"\x00\xff").decode()
    api.answers.append(Answer(body={"data": {"key": encoded}}))
    assert await client.kube.get_secret("team-a", "s") == {"key": b"\x00\xff"}
    api.answers.append(Answer(body={"data": {"text": "é\n"}, "binaryData": {"raw": encoded}}))
    assert await client.kube.get_config_map("team-a", "c") == {"text": "é\n".encode(), "raw": b"\x00\xff"}
    api.answers += [Answer(body={}), refusal(404, "NotFound")]
    assert await client.kube.get_secret("team-a", "s") == {}
    assert await client.kube.get_secret("team-a", "s") is None


class _NotMineError(Exception):
    pass


async def test_a_hook_runs_before_every_attempt_of_a_write_and_can_forbid_it(api: FakeApi, client: Client) -> None:
    seen: list[Call] = []

    def hook(call: Call) -> None:
        seen.append(call)
        if len(seen) == 2:
            raise _NotMineError

    client.kube.add_before_write(hook)
    await client.kube.get(JOB)
    await client.kube.list(Kind.JOB)
    assert seen == []
    api.answers += [Answer(503)]
    with pytest.raises(_NotMineError):
        await client.kube.patch_status(JOB, {"a": 1}, "1")
    assert [call.resource for call in seen] == ["brevjobs/status"] * 2
    assert [request.method for request in api.requests] == ["GET", "GET", "PATCH"]


async def test_the_lease_is_not_fenced_by_itself_and_not_retried(api: FakeApi, client: Client) -> None:
    def hook(_call: Call) -> None:
        raise _NotMineError

    client.kube.add_before_write(hook)
    await client.kube.create_lease("ns", {"metadata": {"name": "l"}}, 1.0)
    api.answers.append(Answer(503))
    with pytest.raises(Unavailable):
        await client.kube.replace_lease("ns", "l", {}, 1.0)
    assert [request.method for request in api.requests] == ["POST", "PUT"]
