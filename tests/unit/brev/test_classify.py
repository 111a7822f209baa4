"""Which error a failed call is, and the sentence that people read."""

import pytest

from controller.brev import errors
from controller.brev.classify import failure
from controller.brev.clean import DETAIL_LIMIT, MESSAGE_LIMIT, Masker, clean
from tests.unit.brev.support import Transcript

URL = "http://127.0.0.1:1/api/organizations/org-aaa/workspaces?cli_version=v0.6.327&local=true&os=linux&utm_source=cli"


def judge(verb: str, stderr: str, stdout: str = "", code: int = 1) -> errors.BrevError:
    return failure(verb, code, stdout, stderr, Masker())


@pytest.mark.parametrize(
    ("reason", "kind", "message"),
    [
        (
            "duplicate workspace with name tj-1\n\nError: workspace 'tj-1' already exists. "
            "Use a different name or delete the existing workspace",
            errors.DuplicateName,
            "workspace 'tj-1' already exists. Use a different name or delete the existing workspace",
        ),
        ("duplicate workspace with name tj-1", errors.DuplicateName, "duplicate workspace with name tj-1"),
        ("quota exceeded for g6e.xlarge", errors.Refused, "quota exceeded for g6e.xlarge"),
        ("disk quota of 500 GB exceeded", errors.Refused, "disk quota of 500 GB exceeded"),
        (
            "there was issues with your credits You have run out of credits visit the settings page",
            errors.OutOfCredits,
            "there was issues with your credits You have run out of credits visit the settings page",
        ),
        ("unauthorized", errors.AuthRequired, "unauthorized"),
        ("token is expired", errors.AuthRequired, "token is expired"),
        ("forbidden", errors.Refused, "forbidden"),
        (
            f"{URL} 500 Internal Server Error oops",
            errors.UnknownFailure,
            "the Brev API answered 500 Internal Server Error oops",
        ),
        ("Post: read tcp 10.0.0.1:1->10.0.0.2:443: connection reset by peer", errors.UnknownFailure, "Post: read tcp"),
        ("EOF", errors.UnknownFailure, "EOF"),
        (
            'could not resolve workspace group for "g6e.xlarge" (instance-type listing was unavailable); please retry',
            errors.UnknownFailure,
            "could not resolve workspace group",
        ),
    ],
)
def test_a_refused_create_is_told_apart_by_the_text_of_the_service(
    transcript: Transcript, reason: str, kind: type[errors.BrevError], message: str
) -> None:
    error = judge("create", transcript.create_failed(reason))
    assert type(error) is kind
    assert error.message.startswith(message)


@pytest.mark.parametrize(
    ("skipped", "kind"),
    [
        ("instance type \"T\" is not a recognized type; run 'brev search' to see available types", errors.UnknownType),
        ('instance type "T" is currently unavailable (no capacity); try again later or run …', errors.NoCapacity),
    ],
)
def test_a_skipped_type_is_unknown_or_without_capacity(
    transcript: Transcript, skipped: str, kind: type[errors.BrevError]
) -> None:
    error = judge("create", transcript.create(f"Skipping: {skipped}"))
    assert type(error) is kind
    assert error.message == skipped


@pytest.mark.parametrize("verb", ["ls", "orgs", "create", "delete", "refresh", "copy"])
def test_the_login_prompt_means_auth_required_whatever_stderr_says(transcript: Transcript, verb: str) -> None:
    error = judge(verb, f"{transcript.resty()}{transcript.collected('EOF')}", stdout=transcript.login_prompt)
    assert type(error) is errors.AuthRequired


def test_an_eof_alone_is_not_an_expired_login(transcript: Transcript) -> None:
    """A create whose answer was lost prints the same word (https://github.com/brevdev/brev-cli/issues/382)."""
    error = judge("create", f"{transcript.resty()}EOF\n")
    assert type(error) is errors.UnknownFailure
    assert error.ambiguous


def test_an_auth_message_says_what_to_do(transcript: Transcript) -> None:
    error = judge("ls", f"{transcript.resty()}EOF\n", stdout=transcript.login_prompt)
    assert error.message == "the Brev credential was not accepted: the CLI asks for a login"


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("instance with id/name nope not found", errors.InstanceNotFound),
        ("workspace not found\n", errors.InstanceNotFound),
        (f"{URL} 500 Internal Server Error oops", errors.UnknownFailure),
        ("This instance does not support deletion", errors.Refused),
        ("something new", errors.UnknownFailure),
    ],
)
def test_a_failed_delete(transcript: Transcript, reason: str, kind: type[errors.BrevError]) -> None:
    assert type(judge("delete", transcript.collected(reason))) is kind


LOOKUP = 'ssh connection failed and could not look up instance "tj-1": '
HINT = "Please check your instances with: brev ls\n"


def test_an_exec_without_login_that_cannot_connect_is_unreachable_not_logged_out(transcript: Transcript) -> None:
    error = judge(
        "exec",
        "ubuntu@127.0.0.2: Permission denied (publickey).\r\nConnection failed, checking instance status...\n"
        f"{transcript.resty()}{LOOKUP}{transcript.trace()}exit status 255\n{HINT}",
        stdout=transcript.login_prompt,
    )
    assert type(error) is errors.HostUnreachable
    assert error.message == ("the machine does not answer by SSH: ubuntu@127.0.0.2: Permission denied (publickey)")


def test_an_exec_whose_command_failed_is_unknown_and_keeps_its_output(transcript: Transcript) -> None:
    error = judge(
        "exec",
        f"Connection failed, checking instance status...\n{transcript.resty()}{LOOKUP}{transcript.trace()}"
        f"exit status 4\n{HINT}",
        stdout="\n@@sentinel@@\n" + transcript.login_prompt,
    )
    assert type(error) is errors.UnknownFailure
    assert error.message == "the remote command ended with exit status 4"
    assert "@@sentinel@@" in error.stdout


@pytest.mark.parametrize(
    ("first", "reason", "kind", "message"),
    [
        (
            "ssh: connect to host 127.0.0.2 port 22: Connection refused\r\n",
            'could not connect to instance "tj-1": {trace}\nssh: connect to host 127.0.0.2 port 22: '
            "Connection refused\r\nPlease check with: brev ls\n",
            errors.HostUnreachable,
            "the machine does not answer by SSH: ssh: connect to host 127.0.0.2 port 22: Connection refused",
        ),
        (
            "",
            "could not connect to instance \"tj-1\": {trace}\nWarning: Permanently added '127.0.0.2' (ED25519) to the "
            "list of known hosts.\r\nPlease check with: brev ls\n",
            errors.HostUnreachable,
            "the machine does not answer by SSH",
        ),
        (
            "No user exists for uid 4999\r\n",
            'could not connect to instance "tj-1": {trace}\n\nPlease check with: brev ls\n',
            errors.HostUnreachable,
            "the machine does not answer by SSH: No user exists for uid 4999",
        ),
        (
            "ssh: Could not resolve hostname tj-1: Temporary failure in name resolution\r\n",
            'instance "tj-1" is in state "DEPLOYING" — please check with: brev ls\n',
            errors.NotRunning,
            'instance "tj-1" is in state "DEPLOYING"',
        ),
        ("", "exit status 3\n", errors.UnknownFailure, "the remote command ended with exit status 3"),
        ("", "exit status 255\n", errors.HostUnreachable, "the machine does not answer by SSH"),
        ("", "instance with id/name tj-1 not found\n", errors.InstanceNotFound, "instance with id/name tj-1 not found"),
        ("", "fork/exec /usr/bin/bash: argument list too long\n", errors.UnknownFailure, "fork/exec"),
    ],
)
def test_a_failed_exec(
    transcript: Transcript, first: str, reason: str, kind: type[errors.BrevError], message: str
) -> None:
    stderr = (
        f"{first}Connection failed, checking instance status...\n"
        f"{transcript.spinner('waiting for SSH connection to be available')}{reason.format(trace=transcript.trace())}"
    )
    error = judge("exec", stderr)
    assert type(error) is kind
    assert error.message.startswith(message)


def test_what_a_remote_command_prints_does_not_classify_the_call() -> None:
    error = judge("exec", "exit status 3\n", stdout="You are currently logged out\nno capacity")
    assert type(error) is errors.UnknownFailure


@pytest.mark.parametrize(
    ("tail", "kind", "message"),
    [
        (
            "scp failed: exit status 1\nOutput: scp: /nope: No such file or directory\r\n\n",
            errors.UnknownFailure,
            "scp failed: exit status 1; Output: scp: /nope: No such file or directory",
        ),
        (
            "\nWarning: Permanently added '127.0.0.2' (ED25519) to the list of known hosts.\r\n",
            errors.HostUnreachable,
            "the machine does not answer by SSH",
        ),
        ("instance with id/name nope not found\n", errors.InstanceNotFound, "instance with id/name nope not found"),
        (
            "panic: runtime error: index out of range [1] with length 1 [recovered, repanicked]\n\ngoroutine 1\n",
            errors.CliPanic,
            "the brev CLI crashed: panic: runtime error: index out of range",
        ),
    ],
)
def test_a_failed_copy(transcript: Transcript, tail: str, kind: type[errors.BrevError], message: str) -> None:
    spinner = transcript.spinner("waiting for instance to be ready...")
    error = judge("copy", spinner + tail, code=2 if kind is errors.CliPanic else 1)
    assert type(error) is kind
    assert error.message.startswith(message)


def test_a_refresh_that_fails_for_an_empty_user_means_not_running(transcript: Transcript) -> None:
    error = judge("refresh", f"{transcript.trace()}workspace x has empty SSH user (workspace may not be running)\n")
    assert type(error) is errors.NotRunning


@pytest.mark.parametrize("text", ["unknown flag: --detached\n", "unknown shorthand flag: 'd' in -d\n"])
def test_an_unknown_flag_is_an_unsupported_cli(text: str) -> None:
    assert type(judge("create", text)) is errors.CliUnsupported


def test_a_silent_failure_still_has_a_sentence() -> None:
    assert judge("ls", "").message == "brev ls failed with exit code 1 and said nothing"
    assert judge("ls", "", code=-9).message == "brev ls was ended by signal 9"


def test_a_list_with_torn_credentials_is_a_failure_that_says_nothing_about_the_login(transcript: Transcript) -> None:
    error = judge("ls", f"{transcript.resty('unexpected end of JSON input')}unexpected end of JSON input\n")
    assert type(error) is errors.UnknownFailure


@pytest.mark.parametrize("text", ["token is expired\n\n", f"{URL} 401 Unauthorized \n", "forbidden\n\n"])
def test_a_list_that_the_service_rejects_needs_a_login(text: str) -> None:
    assert type(judge("ls", text)) is errors.AuthRequired


def test_spinners_traces_colours_and_log_lines_leave_only_the_reason(transcript: Transcript) -> None:
    raw = (
        f"{transcript.spinner('hang tight')}\x1b[33m{transcript.resty()}"
        f"{transcript.collected('instance with id/name nope not found')}\x1b[0m\x00"
    )
    assert clean(raw) == "instance with id/name nope not found"


def test_texts_are_bounded_and_cleaning_a_flood_is_quick() -> None:
    for flood in ("x" * 1_000_000, "[error] \n" * 100_000, "\x1b" * 500_000, "⣷ " * 300_000, "http://" * 100_000):
        error = judge("ls", flood)
        assert len(error.message) <= MESSAGE_LIMIT
        assert len(error.detail) <= DETAIL_LIMIT
        assert "\n" not in error.message


def test_no_part_of_a_credential_survives_in_a_text() -> None:
    jwt = "eyJhbGciOiJub25lIn0.eyJleHAiOjF9.c2ln"
    masker = Masker(["session-key-1:device-id-2"])
    stderr = f"bad session-key-1 device-id-2 session-key-1:device-id-2 bak-abc123 {jwt} Authorization: Bearer abc\n"
    error = failure("ls", 1, "", stderr, masker)
    for secret in ("session-key-1", "device-id-2", "bak-abc123", jwt, "abc"):
        assert secret not in error.message + error.detail
