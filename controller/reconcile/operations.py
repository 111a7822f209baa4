"""Background operations: what takes time runs here, and a pass only ever starts, sees or ends it."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from controller.api.meta import ObjectKey
from controller.api.reasons import Reason
from controller.decide.types import Failure, Operation, OperationView

log = logging.getLogger(__name__)


class OperationFailed(Exception):  # noqa: N818 - reads as what happened
    """An operation that ended without its result, in the words of decisions."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(slots=True)
class _Slot:
    view: OperationView
    task: asyncio.Task[None] | None = None
    last_finished: OperationView | None = None
    ended_at: float | None = None
    """When the work itself ended: a list that its end asks for has to count as later."""
    cancelled: bool = False
    result: Any = None
    failure: Failure | None = None


class Operations:
    """Operations by the uid of their object and by kind. The end of each brings its object back to the queue.

    `translate` turns an exception into a Failure, or None for one that it does not know; those are logged with their
    trace and count as ambiguous.
    """

    def __init__(
        self,
        enqueue: Callable[[ObjectKey], None],
        monotonic: Callable[[], float],
        translate: Callable[[BaseException], Failure | None],
    ) -> None:
        self._enqueue = enqueue
        self._monotonic = monotonic
        self._translate = translate
        self._slots: defaultdict[str, dict[Operation, _Slot]] = defaultdict(dict)
        self._failures: defaultdict[tuple[str, Operation], int] = defaultdict(int)

    def start(self, key: ObjectKey, uid: str, operation: Operation, work: Coroutine[Any, Any, Any]) -> None:
        """Start `work`; RuntimeError if this object has one of that kind running, which a decision must not want."""
        known = self._slots[uid].get(operation)
        if known is not None and known.view.running:
            work.close()
            raise RuntimeError(f"{operation} of {key} runs already")
        slot = _Slot(OperationView(started=self._monotonic()))
        slot.last_finished = known.last_finished if known is not None else None
        self._slots[uid][operation] = slot
        slot.task = asyncio.create_task(self._run(operation, slot, work), name=f"{operation} {key}")

        def ended(_: asyncio.Task[None]) -> None:
            # A task that is cancelled before its first step never enters its body: its end is seen here all the same.
            work.close()
            self._conclude(key, uid, operation, slot)

        slot.task.add_done_callback(ended)

    def views(self, uid: str) -> dict[Operation, OperationView]:
        return {operation: slot.view for operation, slot in self._slots.get(uid, {}).items()}

    def last_finished(self, uid: str, operation: Operation) -> OperationView | None:
        """The newest ended operation of that kind, also while another one runs."""
        slot = self._slots.get(uid, {}).get(operation)
        return slot.last_finished if slot is not None else None

    def cancel(self, uid: str, operations: Collection[Operation]) -> None:
        """End running operations; their process groups die with them, and their end is seen as a failure."""
        for operation in operations:
            slot = self._slots.get(uid, {}).get(operation)
            if slot is not None and slot.task is not None and slot.view.running and not slot.cancelled:
                # Once: a second one would cut short the wait for the process group.
                slot.cancelled = True
                slot.task.cancel()

    def consume(self, uid: str, operations: Collection[Operation]) -> None:
        """Forget ended operations whose outcome is in the status now."""
        for operation in operations:
            slot = self._slots.get(uid, {}).get(operation)
            if slot is not None and not slot.view.running:
                del self._slots[uid][operation]

    def forget(self, uid: str) -> None:
        """The object is gone: end and forget all of its operations."""
        self.cancel(uid, list(self._slots.get(uid, {})))
        self._slots.pop(uid, None)
        for known in [item for item in self._failures if item[0] == uid]:
            del self._failures[known]

    async def drain(self) -> None:
        """End everything that runs and wait for it; for the shutdown of the process."""
        tasks = [s.task for slots in self._slots.values() for s in slots.values() if s.task and not s.task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, operation: Operation, slot: _Slot, work: Coroutine[Any, Any, Any]) -> None:
        try:
            slot.result = await work
        except asyncio.CancelledError:
            slot.failure = _cancelled(operation)
            raise
        except Exception as error:  # noqa: BLE001 - every end of an operation must reach its object
            slot.failure = self._failure(operation, error)
        finally:
            slot.ended_at = self._monotonic()

    def _conclude(self, key: ObjectKey, uid: str, operation: Operation, slot: _Slot) -> None:
        failure = slot.failure if slot.ended_at is not None else _cancelled(operation)
        counter = (uid, operation)
        streak = self._failures[counter] + 1 if failure is not None else 0
        finished = self._monotonic() if slot.ended_at is None else slot.ended_at
        slot.view = replace(slot.view, finished=finished, result=slot.result, failure=failure, failures=streak)
        slot.last_finished = slot.view
        if self._slots.get(uid, {}).get(operation) is slot:
            self._failures[counter] = streak
            self._enqueue(key)
        else:
            self._failures.pop(counter, None)

    def _failure(self, operation: Operation, error: Exception) -> Failure:
        if isinstance(error, OperationFailed):
            return error.failure
        known = self._translate(error)
        if known is not None:
            log.info("The %s call failed: %s", operation, known.message, extra={"reason": str(known.reason)})
            return known
        log.exception("The %s call ended in an unexpected error", operation)
        return Failure(Reason.CLI_FAILED, f"The {operation} call ended in {type(error).__name__}.", ambiguous=True)


def _cancelled(operation: Operation) -> Failure:
    return Failure(Reason.DELETING, f"The {operation} call was ended.", ambiguous=True)
