// Pays with @hapax/client: hapax_pay.mjs URL KEY PAYMENT [KEY PAYMENT …]
//
// For an empty KEY the client makes one.

import { Client, Intent } from '@hapax/client';

/** As a line: one of three things, and its answer if there is one. */
function told(outcome) {
  switch (outcome.kind) {
    case 'done':
      return line(outcome.replayed ? 'replayed' : 'done', outcome.response);
    case 'refused':
      return line(outcome.why, outcome.response);
    case 'unknown':
      return line('unknown', outcome.operation.evidence);
  }
}

function line(came, answer) {
  return { came, status: answer?.status ?? 0, body: answer?.text() ?? '' };
}

const [url, ...pairs] = process.argv.slice(2);
const client = new Client();
while (pairs.length > 0) {
  const [key, payment] = pairs.splice(0, 2);
  const options = { json: JSON.parse(payment), ...(key === '' ? {} : { key }) };
  console.log(JSON.stringify(told(await client.send(Intent.post(url, options)))));
}
