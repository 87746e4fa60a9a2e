// Pays once, whatever becomes of connections: main.mjs URL KEY PAYMENT [KEY PAYMENT …]

import { pay } from './pay.mjs';

const [url, ...pairs] = process.argv.slice(2);
while (pairs.length > 0) {
  const [key, payment] = pairs.splice(0, 2);
  console.log(JSON.stringify(await pay(url, key, JSON.parse(payment))));
}
