// SHA-1 and the SHA-2 family, on bytes. The constants are computed when the module is built: they are fractional parts of roots
// of the first primes.

import { $, Math, Number } from "../primordials.js";

/// The digest of `bytes` by `name`, e.g. "SHA-256"; undefined for an unknown name.
export function digest(name, bytes) {
  switch (name) {
    case "SHA-1":
      return sha1(bytes);
    case "SHA-256":
      return sha256(bytes);
    case "SHA-384":
      return sha512(bytes, START_384)[$.slice](0, 48);
    case "SHA-512":
      return sha512(bytes, START_512);
    default:
      return undefined;
  }
}

const PRIMES = [];
for (let candidate = 2; PRIMES.length < 80; candidate++) {
  if (PRIMES[$.every]((prime) => candidate % prime !== 0)) PRIMES[$.push](candidate);
}

/// The first 64 bits of the fractional part of the `degree`-th root of a prime, as two halves.
function rootFraction(prime, degree) {
  const target = BigInt(prime) << BigInt(64 * degree);
  let low = 0n;
  let high = 1n << 72n;
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    if (middle ** BigInt(degree) <= target) low = middle;
    else high = middle;
  }
  return [Number((low >> 32n) & 0xffff_ffffn) | 0, Number(low & 0xffff_ffffn) | 0];
}

const CUBE_ROOTS = PRIMES[$.map]((prime) => rootFraction(prime, 3));
const K256 = Int32Array.from(CUBE_ROOTS[$.slice](0, 64), ([high]) => high);
const K512 = Int32Array.from(CUBE_ROOTS[$.flat]());
const START_512 = PRIMES[$.slice](0, 8)[$.flatMap]((prime) => rootFraction(prime, 2));
const START_256 = START_512[$.filter]((_, index) => index % 2 === 0);
const START_384 = PRIMES[$.slice](8, 16)[$.flatMap]((prime) => rootFraction(prime, 2));
const START_1 = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];

/// The message with its padding: a 1 bit, zeros, the length in bits.
function pad(bytes, block) {
  const lengthBytes = block / 8;
  const padded = new Uint8Array(Math.ceil((bytes.length + 1 + lengthBytes) / block) * block);
  padded[$.set](bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(padded.length - 4, bytes.length << 3);
  return view;
}

function toBytes(words) {
  const bytes = new Uint8Array(words.length * 4);
  const view = new DataView(bytes.buffer);
  words[$.forEach]((word, index) => view.setInt32(index * 4, word));
  return bytes;
}

const rotateLeft = (x, n) => (x << n) | (x >>> (32 - n));
const rotateRight = (x, n) => (x >>> n) | (x << (32 - n));

function sha1(bytes) {
  const view = pad(bytes, 64);
  const state = Int32Array.from(START_1);
  const w = new Int32Array(80);
  for (let start = 0; start < view.byteLength; start += 64) {
    for (let t = 0; t < 16; t++) w[t] = view.getInt32(start + t * 4);
    for (let t = 16; t < 80; t++) w[t] = rotateLeft(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    let [a, b, c, d, e] = state;
    for (let t = 0; t < 80; t++) {
      const f = t < 20 ? ((b & c) | (~b & d)) + 0x5a827999 : t < 40 ? (b ^ c ^ d) + 0x6ed9eba1 : t < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc : (b ^ c ^ d) + 0xca62c1d6;
      const next = (rotateLeft(a, 5) + f + e + w[t]) | 0;
      [e, d, c, b, a] = [d, c, rotateLeft(b, 30), a, next];
    }
    [a, b, c, d, e][$.forEach]((word, index) => (state[index] += word));
  }
  return toBytes(state);
}

function sha256(bytes) {
  const view = pad(bytes, 64);
  const state = Int32Array.from(START_256);
  const w = new Int32Array(64);
  for (let start = 0; start < view.byteLength; start += 64) {
    for (let t = 0; t < 16; t++) w[t] = view.getInt32(start + t * 4);
    for (let t = 16; t < 64; t++) {
      const s0 = rotateRight(w[t - 15], 7) ^ rotateRight(w[t - 15], 18) ^ (w[t - 15] >>> 3);
      const s1 = rotateRight(w[t - 2], 17) ^ rotateRight(w[t - 2], 19) ^ (w[t - 2] >>> 10);
      w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let t = 0; t < 64; t++) {
      const s1 = rotateRight(e, 6) ^ rotateRight(e, 11) ^ rotateRight(e, 25);
      const t1 = (h + s1 + ((e & f) ^ (~e & g)) + K256[t] + w[t]) | 0;
      const s0 = rotateRight(a, 2) ^ rotateRight(a, 13) ^ rotateRight(a, 22);
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + t1) | 0;
      d = c;
      c = b;
      b = a;
      a = (t1 + t2) | 0;
    }
    [a, b, c, d, e, f, g, h][$.forEach]((word, index) => (state[index] += word));
  }
  return toBytes(state);
}

/// 64-bit words as pairs of 32-bit halves, high half first.
function sha512(bytes, startState) {
  const view = pad(bytes, 128);
  const state = Int32Array.from(startState);
  const w = new Int32Array(160);
  for (let start = 0; start < view.byteLength; start += 128) {
    for (let t = 0; t < 32; t++) w[t] = view.getInt32(start + t * 4);
    for (let t = 32; t < 160; t += 2) {
      const a = sigma(w[t - 30], w[t - 29], 1, 8, 7, true);
      const b = sigma(w[t - 4], w[t - 3], 19, 61, 6, true);
      [w[t], w[t + 1]] = sum(w[t - 32], w[t - 31], a[0], a[1], w[t - 14], w[t - 13], b[0], b[1]);
    }
    const v = Int32Array.from(state);
    for (let t = 0; t < 160; t += 2) {
      const [ah, al, bh, bl, ch, cl, , , eh, el, fh, fl, gh, gl, hh, hl] = v;
      const s1 = sigma(eh, el, 14, 18, 41, false);
      const choiceHigh = (eh & fh) ^ (~eh & gh);
      const choiceLow = (el & fl) ^ (~el & gl);
      const t1 = sum(hh, hl, s1[0], s1[1], choiceHigh, choiceLow, K512[t], K512[t + 1], w[t], w[t + 1]);
      const s0 = sigma(ah, al, 28, 34, 39, false);
      const t2 = sum(s0[0], s0[1], (ah & bh) ^ (ah & ch) ^ (bh & ch), (al & bl) ^ (al & cl) ^ (bl & cl));
      const e = sum(v[6], v[7], t1[0], t1[1]);
      v[$.copyWithin](2, 0, 14);
      [v[0], v[1]] = sum(t1[0], t1[1], t2[0], t2[1]);
      [v[8], v[9]] = e;
    }
    for (let t = 0; t < 16; t += 2) [state[t], state[t + 1]] = sum(state[t], state[t + 1], v[t], v[t + 1]);
  }
  return toBytes(state);
}

function sum(...halves) {
  let low = 0;
  let high = 0;
  for (let index = 0; index < halves.length; index += 2) {
    high += halves[index];
    low += halves[index + 1] >>> 0;
  }
  return [(high + Math.floor(low / 2 ** 32)) | 0, low | 0];
}

/// Three rotations joined by exclusive or; the third is a shift where `shifts`.
function sigma(high, low, first, second, third, shifts) {
  const a = rotate64(high, low, first);
  const b = rotate64(high, low, second);
  const c = shifts ? [high >>> third, (low >>> third) | (high << (32 - third))] : rotate64(high, low, third);
  return [a[0] ^ b[0] ^ c[0], a[1] ^ b[1] ^ c[1]];
}

function rotate64(high, low, n) {
  if (n >= 32) return rotate64(low, high, n - 32);
  return n === 0 ? [high, low] : [(high >>> n) | (low << (32 - n)), (low >>> n) | (high << (32 - n))];
}
