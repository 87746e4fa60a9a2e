// In Node and in pages.

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Whether the same request may get another answer soon. */
function isPassing(answer, body) {
  if (answer.status === 409 && answer.headers.get('Content-Type') === 'application/problem+json') {
    return JSON.parse(body).type === 'urn:hapax:problem:in-flight';
  }
  return [429, 502, 503, 504].includes(answer.status);
}

/** Sends it until there is an answer. The key is the caller's, made once and kept. */
export async function pay(url, key, payment, tries = 8) {
  const request = {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'Idempotency-Key': `"${key}"` },
    body: JSON.stringify(payment),
  };
  for (let tried = 1; ; tried += 1) {
    let wait = Math.random() * Math.min(5_000, 100 * 2 ** tried);
    try {
      const answer = await fetch(url, { ...request, signal: AbortSignal.timeout(30_000) });
      // An answer that is cut in its body throws here.
      const body = await answer.text();
      // A browser takes a head that is cut for a whole one, and what follows for an empty body.
      if (body === '') throw new TypeError('an answer without a body');
      if (tried === tries || !isPassing(answer, body)) {
        // Whether it is the outcome, which is kept from now on.
        const settled = answer.headers.has('Idempotency-Expires');
        return { status: answer.status, body, settled };
      }
      wait += 1_000 * Math.min(5, Number(answer.headers.get('Retry-After') ?? 0));
    } catch (error) {
      if (tried === tries) throw error;
    }
    await sleep(wait);
  }
}
