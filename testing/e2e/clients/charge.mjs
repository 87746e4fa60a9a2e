// Charges with Stripe's SDK: charge.mjs BASE KEY AMOUNT [KEY AMOUNT …]
//
// For an empty KEY the SDK makes one.

import Stripe from 'stripe';

/** The SDK takes each answer without a member `error` for a success, whatever its status. */
function settled(answer) {
  const { statusCode } = answer.lastResponse;
  if (statusCode >= 400) {
    throw Object.assign(new Error(answer.title ?? `status ${statusCode}`), { statusCode, answer });
  }
  return answer;
}

/** Charges until there is an answer. The key is the caller's, made once and kept. */
async function charge(stripe, key, amount) {
  const params = { amount, currency: 'eur', source: 'tok_visa' };
  for (const again of [true, true, false]) {
    try {
      return settled(await stripe.charges.create(params, { idempotencyKey: key }));
    } catch (error) {
      // The SDK does not retry an answer that is cut in its body.
      if (!again || error.statusCode >= 400) throw error;
    }
  }
}

async function chargeWithAKeyOfTheSdk(stripe, amount) {
  const params = { amount, currency: 'eur', source: 'tok_visa' };
  return settled(await stripe.charges.create(params));
}

const [base, ...pairs] = process.argv.slice(2);
const { protocol, hostname, port } = new URL(base);
const stripe = new Stripe('sk_test_hapax', {
  protocol: protocol.replace(':', ''),
  host: hostname,
  port,
  maxNetworkRetries: 3,
});
while (pairs.length > 0) {
  const [key, amount] = pairs.splice(0, 2);
  try {
    const made = await (key ? charge(stripe, key, amount) : chargeWithAKeyOfTheSdk(stripe, amount));
    console.log(JSON.stringify({ id: made.id }));
  } catch (error) {
    console.log(JSON.stringify({ error: error.constructor.name, status: error.statusCode }));
  }
}
// Answers that the SDK retried are never read, and keep their connections.
process.exit();
