"""Stores requests for approval and the decisions: each is for one action and is used once."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from secrets import token_hex

from sqlalchemy import Connection, Row, or_, select, update

from contracts.errors import ApprovalDecided, ApprovalNotFound, OptionInvalid
from contracts.json import canonical_json
from policy.database import approvals, read_transaction
from policy.errors import LogDamaged
from policy.log.approval_record import approval_body, differing_fields, newest_body
from policy.log.event_log import EventLog, LogTransaction
from policy.log.events import Draft
from policy.types import (
    APPROVAL_TTL_S,
    Approval,
    ApprovalReply,
    ApprovalRequest,
    ApprovalStatus,
    Approver,
    denial_from_json,
    denial_to_json,
)


@dataclass(frozen=True, kw_only=True)
class Approvals:
    """All approvals in the database of the event log.

    Every change is also an event, in the same transaction. An approval that its newest event does
    not confirm is neither shown, nor decided, nor used.
    """

    log: EventLog
    ttl_s: float = APPROVAL_TTL_S
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @property
    def approver(self) -> Approver:
        """Asks through this table, without waiting for the decision."""
        return Approver(ask=self.ask, consume=self.consume)

    def ask(self, request: ApprovalRequest) -> ApprovalReply:
        """Return the decision about this action of this run; store the request if it is new."""
        with self._unexpired() as transaction:
            row = _latest(transaction.connection, request)
            if row is None:
                row = self._insert(transaction, request)
            _check(transaction, row)
        approval = _approval(row)
        match approval.status:
            case "approved" | "denied":
                by, why = approval.decided_by or "", approval.reason
                reason = f"{by}: {why}" if why else f"{approval.status} by {by}"
                return ApprovalReply(
                    status=approval.status, by=by, reason=reason, approval=approval.id
                )
            case _:
                reason = f"approval {approval.id} is pending"
                return ApprovalReply(status="waiting", reason=reason, approval=approval.id)

    def is_known(self, request: ApprovalRequest) -> bool:
        """Return True if this action of this run has a pending or decided approval."""
        with read_transaction(self.log.engine) as connection:
            return _latest(connection, request) is not None

    def consume(self, request: ApprovalRequest) -> bool:
        """Use up the approval of this action; return False if there is none any more."""
        with self._unexpired() as transaction:
            row = _latest(transaction.connection, request)
            if row is None or row.status != "approved":
                return False
            _check(transaction, row)
            _update(transaction, row.id, status="used", used_at=_text(self.now()))
        return True

    def restore_used(self, run_id: str, *, used_since: datetime) -> int:
        """Make approvals of a run usable again whose actions were lost with a broken attempt.

        Return the number of approvals that were used after `used_since`.
        """
        with self.log.transaction() as transaction:
            query = select(approvals).where(
                approvals.c.run_id == run_id,
                approvals.c.status == "used",
                approvals.c.used_at > _text(used_since),
            )
            rows = transaction.connection.execute(query).all()
            for row in rows:
                _check(transaction, row)
                _update(transaction, row.id, status="approved")
        return len(rows)

    def decide(self, prefix: str, status: ApprovalStatus, *, by: str, reason: str = "") -> Approval:
        """Approve or deny; an approval can be revoked as long as it is not used.

        Raises:
            ApprovalNotFound: no single approval has an id with this prefix.
            ApprovalDecided: it is not pending any more.
            OptionInvalid: it is a question, and `reason`, the answer, is empty.
        """
        with self._unexpired() as transaction:
            row = _by_prefix(transaction.connection, prefix)
            _check(transaction, row)
            if row.status != "pending" and (row.status, status) != ("approved", "denied"):
                by = f" by {row.decided_by}" if row.decided_by else ""
                why = f" ({row.reason})" if row.reason else ""
                raise ApprovalDecided(
                    f"approval {row.id} is {row.status}{by}{why}, which is final: only the run "
                    "can request another one"
                )
            if status == "approved" and not reason.strip() and _approval(row).is_question:
                raise OptionInvalid(f"approval {row.id} is a question: give your answer")
            decided_at = _text(self.now())
            decision = {"decided_by": by, "reason": reason, "decided_at": decided_at}
            return _approval(_update(transaction, row.id, status=status, **decision))

    def get(self, prefix: str) -> Approval:
        """Return the approval whose id has this prefix.

        Raises:
            ApprovalNotFound: there is none, or more than one.
        """
        with self._unexpired() as transaction:
            row = _by_prefix(transaction.connection, prefix)
            _check(transaction, row)
            return _approval(row)

    def list(self, *, run_id: str | None = None, pending: bool = False) -> list[Approval]:
        """Return approvals, the newest first."""
        query = select(approvals).order_by(approvals.c.asked_at.desc())
        if run_id is not None:
            query = query.where(approvals.c.run_id == run_id)
        if pending:
            now = _text(self.now())
            query = query.where(approvals.c.status == "pending", approvals.c.expires_at > now)
        with read_transaction(self.log.engine) as connection:
            return [_approval(row) for row in connection.execute(query)]

    def expired_undecided(self, run_id: str) -> Sequence[Approval]:
        """Return the run's approvals that expired undecided and were not requested again."""
        self.expire()
        newest = {one.action: one for one in reversed(self.list(run_id=run_id))}
        expired = (one for one in newest.values() if one.status == "expired")
        return [one for one in expired if one.decided_by is None]

    def expire(self) -> int:
        """Mark approvals whose time is over as expired; return how many."""
        with self._unexpired() as transaction:
            return len(transaction.drafts)

    def _insert(
        self, transaction: LogTransaction, request: ApprovalRequest
    ) -> Row[tuple[object, ...]]:
        now, name = self.now(), token_hex(6)
        row = vars(request) | {
            "id": name,
            "arguments": json.loads(canonical_json(request.arguments)),
            "denied": denial_to_json(request.denied),
            "status": "pending",
            "asked_at": _text(now),
            "expires_at": _text(now + timedelta(seconds=self.ttl_s)),
            "reason": "",
        }
        transaction.connection.execute(approvals.insert().values(row))
        return _log(transaction, _by_prefix(transaction.connection, name))

    @contextmanager
    def _unexpired(self) -> Iterator[LogTransaction]:
        """Open a transaction in which no expired approval is pending or approved."""
        is_over = approvals.c.expires_at <= _text(self.now())
        is_open = or_(approvals.c.status == "pending", approvals.c.status == "approved")
        expire = update(approvals).where(is_over, is_open).values(status="expired")
        with self.log.transaction() as transaction:
            for row in transaction.connection.execute(expire.returning(approvals)).all():
                _log(transaction, row)
            yield transaction


def _log(transaction: LogTransaction, row: Row[tuple[object, ...]]) -> Row[tuple[object, ...]]:
    """Append the present state of an approval to the log."""
    transaction.drafts.append(Draft(kind="approval", run_id=row.run_id, body=approval_body(row)))
    return row


def _check(transaction: LogTransaction, row: Row[tuple[object, ...]]) -> None:
    """Refuse an approval that differs from its newest event.

    Raises:
        LogDamaged: somebody edited the approval in the database.
    """
    bodies = [
        (one.run_id, one.body) for one in transaction.drafts if one.body["approval"] == row.id
    ]
    recorded = bodies[-1] if bodies else newest_body(transaction.connection, row)
    differing = differing_fields(row, *recorded) if recorded else ["all fields"]
    if differing:
        raise LogDamaged(
            f"approval {row.id} was edited: its {', '.join(differing)} differ from the event log. "
            "Run `harness events verify`"
        )


def _update(transaction: LogTransaction, name: str, **values: str) -> Row[tuple[object, ...]]:
    changed = update(approvals).where(approvals.c.id == name).values(values)
    return _log(transaction, transaction.connection.execute(changed.returning(approvals)).one())


def _latest(connection: Connection, request: ApprovalRequest) -> Row[tuple[object, ...]] | None:
    """Return the newest approval of the action that is not used or expired."""
    return connection.execute(
        select(approvals)
        .where(approvals.c.action == request.action, approvals.c.run_id == request.run_id)
        .where(approvals.c.status.in_(("pending", "approved", "denied")))
        .order_by(approvals.c.asked_at.desc())
        .limit(1)
    ).one_or_none()


def _by_prefix(connection: Connection, prefix: str) -> Row[tuple[object, ...]]:
    rows = connection.execute(
        select(approvals).where(approvals.c.id.startswith(prefix, autoescape=True)).limit(2)
    ).all()
    # An empty prefix would match if there is only one approval.
    if len(rows) != 1 or not prefix:
        count = "more than one approval has" if rows else "no approval has"
        raise ApprovalNotFound(
            f"{count} an id that begins with {prefix!r}; `harness approvals list` shows ids"
        )
    return rows[0]


def _approval(row: Row[tuple[object, ...]]) -> Approval:
    values = {field.name: getattr(row, field.name) for field in fields(Approval)}
    values["denied"] = denial_from_json(row.denied)
    for name in ("asked_at", "expires_at", "decided_at"):
        values[name] = values[name] and datetime.fromisoformat(values[name])
    return Approval(**values)


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds")
