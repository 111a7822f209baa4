"""What came of a job, for people: verdict, exit code, cost beside the invoice, and the end of its log."""

from __future__ import annotations

from dataclasses import dataclass

from controller.api.brevjob import BrevJob, JobAttempt
from controller.api.conditions import ConditionType, get_condition
from controller.api.money import format_usd
from controller.sandbox.terminal import PHASE_STYLES, Terminal, printable
from controller.sandbox.timeline import JobName

LABEL_WIDTH = 10
PLACES = 5


@dataclass(frozen=True, slots=True)
class Result:
    """One job at the end of the demo. `charged_micros` is the sum of its machines on the simulator's invoice."""

    name: JobName
    job: BrevJob | None
    charged_micros: int


def job_report(terminal: Terminal, result: Result) -> None:
    """Print it."""
    terminal.line()
    terminal.line(terminal.style(f"BrevJob {'/'.join(result.name)}", "bold"))
    job = result.job
    if job is None:
        terminal.line("  was never seen by the API server's watch")
        return
    attempt = job.status.attempts[-1] if job.status.attempts else None
    phase = str(job.status.phase or "Pending")
    for label, text in _facts(result, job, attempt):
        styled = terminal.style(text, PHASE_STYLES.get(phase, "yellow")) if label == "verdict" else text
        terminal.line(f"  {label:<{LABEL_WIDTH}}  {styled}")
    _print_log(terminal, job)


def _facts(result: Result, job: BrevJob, attempt: JobAttempt | None) -> list[tuple[str, str]]:
    status = job.status
    ready = get_condition(status.conditions, ConditionType.READY)
    message = (attempt.message if attempt is not None else None) or (ready.message if ready is not None else "")
    verdict = str(status.phase or "Pending")
    if attempt is not None and attempt.exit_code is not None:
        verdict += f", exitCode {attempt.exit_code}"
    if attempt is not None and attempt.signal is not None:
        verdict += f", {attempt.signal}"
    facts = [("verdict", f"{verdict}: {printable(message)}" if message else verdict)]
    if status.machine is not None:
        price = status.machine.price_micros
        rate = f" at {format_usd(price)} USD an hour" if price is not None else ""
        facts.append(("machine", f"{status.machine.type}{rate} ({status.machine.brev_name})"))
    if status.cost is not None:
        own = format_usd(status.cost.accrued_micros or 0, PLACES)
        charged = format_usd(result.charged_micros, PLACES)
        facts.append(("cost", f"{own} USD by the operator, {charged} USD on the simulator's invoice"))
    return facts


def _print_log(terminal: Terminal, job: BrevJob) -> None:
    tail = job.status.log_tail
    if not tail:
        terminal.line(f"  {'log':<{LABEL_WIDTH}}  {'none' if tail is None else 'empty'}")
        return
    whole = job.status.log_bytes or 0
    amount = f"the end of {whole} bytes" if job.status.log_truncated else f"{whole} bytes"
    terminal.line(f"  {'log':<{LABEL_WIDTH}}  {amount}")
    for line in printable(tail).splitlines():
        terminal.line(f"  {terminal.style('|', 'dim')} {line}")
