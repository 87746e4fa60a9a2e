/**
 * Whether somebody above already sends again what fails.
 *
 * Retries multiply: where each of five layers makes three attempts, one request of a user becomes
 * 243 at the bottom ("Timeouts, retries, and backoff with jitter", Amazon Builders' Library). So
 * one layer retries, the one that has the whole deadline in view, and tells those below that it
 * does: within a process by `retriedAbove`, from process to process by a field of the request.
 */

/** The field of a request whose sender sends it again when it fails: `Hapax-Retries: above`. */
export const FIELD = 'Hapax-Retries';

export const ABOVE = 'above';

/** Whether the field of a request that came in says that somebody above retries. */
export function says(value: string | null | undefined): boolean {
  return value?.trim().toLowerCase() === ABOVE;
}
