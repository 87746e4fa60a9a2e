"""Times in the fields of answers."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Optional

_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()

_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})"
# The three forms that a recipient has to know (RFC 9110, section 5.6.7).
_DATES = [
    re.compile(pattern, re.ASCII)
    for pattern in (
        rf"(?P<name>[A-Z][a-z]+), (?P<day>\d\d) {_MONTH} (?P<year>\d{{4}}) {_TIME} GMT",
        rf"(?P<name>[A-Z][a-z]+), (?P<day>\d\d)-{_MONTH}-(?P<short>\d\d) {_TIME} GMT",
        rf"(?P<name>[A-Z][a-z]+) {_MONTH} (?P<day>[ \d]\d) {_TIME} (?P<year>\d{{4}})",
    )
]
_RFC_3339 = re.compile(
    rf"(?P<year>\d{{4}})-(?P<number>\d\d)-(?P<day>\d\d)T{_TIME}(?P<part>\.\d+)?(?:Z|\+00:00)",
    re.ASCII,
)


def retry_after(value: str, now: float) -> Optional[float]:
    """How long to wait, from the time of the answer on, as ``Retry-After`` says it (RFC 9110,
    section 10.2.3): whole seconds, or a date. A date that is over is no wait. ``None`` for anything
    else: a field that cannot be read is not there."""
    text = value.strip()
    if re.fullmatch(r"[0-9]+", text):
        # So many digits that no number holds them are as long as it gets.
        return float(text)
    date = parse_http_date(text)
    return None if date is None else max(date - now, 0.0)


def until(value: str, now: float) -> Optional[float]:
    """How long until a moment of RFC 3339 in UTC; zero where it is over."""
    found = _RFC_3339.fullmatch(value.strip())
    if found is None:
        return None
    moment = _moment(int(found["year"]), int(found["number"]), found)
    if moment is None:
        return None
    return max(moment.timestamp() + float(found["part"] or 0) - now, 0.0)


def parse_http_date(text: str) -> Optional[float]:
    """Seconds since 1970 of an HTTP date; ``None`` where it is none."""
    for date in _DATES:
        found = date.fullmatch(text)
        if found is None:
            continue
        fields = found.groupdict()
        short = fields.get("short")
        year = int(fields["year"]) if short is None else _century(int(short))
        moment = _moment(year, _MONTHS.index(found["month"]) + 1, found)
        if moment is None:
            return None
        day = _DAYS[moment.weekday()]
        is_named_so = found["name"] == (day[:3] if short is None else day)
        return moment.timestamp() if is_named_so else None
    return None


def _century(year: int) -> int:
    return year + (2000 if year < 70 else 1900)


def _moment(year: int, month: int, found: re.Match[str]) -> Optional[datetime]:
    try:
        day, hour = int(found["day"]), int(found["hour"])
        minute, second = int(found["minute"]), int(found["second"])
        moment = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
    except ValueError:
        return None
    return moment if year >= 1970 else None
