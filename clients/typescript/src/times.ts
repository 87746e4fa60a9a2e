/** Times in the fields of answers, in seconds. */

const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');
const DAYS = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ');

const TIME = String.raw`(?<hour>\d\d):(?<minute>\d\d):(?<second>\d\d)`;
const MONTH = `(?<month>${MONTHS.join('|')})`;
// The three forms that a recipient has to know (RFC 9110, section 5.6.7).
const DATES = [
  String.raw`(?<name>[A-Z][a-z]+), (?<day>\d\d) ${MONTH} (?<year>\d{4}) ${TIME} GMT`,
  String.raw`(?<name>[A-Z][a-z]+), (?<day>\d\d)-${MONTH}-(?<short>\d\d) ${TIME} GMT`,
  String.raw`(?<name>[A-Z][a-z]+) ${MONTH} (?<day>[ \d]\d) ${TIME} (?<year>\d{4})`,
].map((pattern) => new RegExp(`^${pattern}$`));
const RFC_3339 = new RegExp(
  String.raw`^(?<year>\d{4})-(?<number>\d\d)-(?<day>\d\d)T${TIME}(?<part>\.\d+)?(?:Z|\+00:00)$`,
);

/**
 * How long to wait, from the time of the answer on, as `Retry-After` says it (RFC 9110, section
 * 10.2.3): whole seconds, or a date. A date that is over is no wait. `undefined` for anything else:
 * a field that cannot be read is not there.
 */
export function retryAfter(value: string, now: number): number | undefined {
  const text = value.trim();
  // So many digits that no number holds them are as long as it gets.
  if (/^[0-9]+$/.test(text)) return Number(text);
  const date = parseHttpDate(text);
  return date === undefined ? undefined : Math.max(date - now, 0);
}

/** How long until a moment of RFC 3339 in UTC; zero where it is over. */
export function until(value: string, now: number): number | undefined {
  const found = RFC_3339.exec(value.trim())?.groups;
  if (found === undefined) return undefined;
  const at = moment(Number(found['year']), Number(found['number']) - 1, found);
  if (at === undefined) return undefined;
  return Math.max(at.getTime() / 1000 + Number(found['part'] ?? 0) - now, 0);
}

/** Seconds since 1970 of an HTTP date; `undefined` where it is none. */
export function parseHttpDate(text: string): number | undefined {
  for (const date of DATES) {
    const found = date.exec(text)?.groups;
    if (found === undefined) continue;
    const { short, name } = found;
    const year = short === undefined ? Number(found['year']) : century(Number(short));
    const at = moment(year, MONTHS.indexOf(found['month'] ?? ''), found);
    if (at === undefined) return undefined;
    const day = DAYS[at.getUTCDay()];
    const isNamedSo = name === (short === undefined ? day?.slice(0, 3) : day);
    return isNamedSo ? at.getTime() / 1000 : undefined;
  }
  return undefined;
}

function century(year: number): number {
  return year + (year < 70 ? 2000 : 1900);
}

function moment(year: number, month: number, found: Record<string, string>): Date | undefined {
  const [day, hour, minute, second] = ['day', 'hour', 'minute', 'second'].map((name) =>
    Number(found[name]),
  ) as [number, number, number, number];
  if (year < 1970 || hour > 23 || minute > 59 || second > 59) return undefined;
  const at = new Date(Date.UTC(year, month, day, hour, minute, second));
  // A day that its month does not have is one of the next.
  return at.getUTCMonth() === month && at.getUTCDate() === day ? at : undefined;
}
