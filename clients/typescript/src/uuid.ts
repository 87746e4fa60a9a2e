/**
 * A UUID of version 7 (RFC 9562, section 5.7): it begins with the time, so that the records of one
 * time are in one place of the service's store.
 */
export function uuid7(): string {
  if (globalThis.crypto === undefined) {
    throw new Error('there is no Web Crypto: start Node 18 with --experimental-global-webcrypto');
  }
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const view = new DataView(bytes.buffer);
  const now = Date.now();
  view.setUint16(0, Math.floor(now / 2 ** 32));
  view.setUint32(2, now % 2 ** 32);
  view.setUint8(6, (view.getUint8(6) & 0x0f) | 0x70);
  view.setUint8(8, (view.getUint8(8) & 0x3f) | 0x80);
  const text = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return text.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
