// `crypto`: random values of the run's own (recorded in workflow code, real in a body), digests and HMAC.

import { $, Array, Math, String, isView, DOMException } from "../primordials.js";
import { random32 } from "../clock.js";
import { bytesOf } from "./encoding.js";
import { digest } from "./digest.js";

const BLOCK = { "SHA-1": 64, "SHA-256": 64, "SHA-384": 128, "SHA-512": 128 };
const INTEGER_ARRAYS = /^(Int|Uint|BigInt|BigUint)(8|16|32|64)(Clamped)?Array$/;

export function getRandomValues(array) {
  if (!isView(array) || !INTEGER_ARRAYS[$.test](array[Symbol.toStringTag])) {
    throw new DOMException("getRandomValues: expected an array of integers", "TypeMismatchError");
  }
  if (array.byteLength > 65_536) throw new DOMException("getRandomValues: more than 65536 bytes", "QuotaExceededError");
  fillRandom(bytesOf(array));
  return array;
}

function fillRandom(bytes) {
  for (let at = 0; at < bytes.length; at += 4) {
    let word = random32();
    for (let index = at; index < Math.min(at + 4, bytes.length); index++, word >>>= 8) bytes[index] = word & 255;
  }
}

export function randomUUID() {
  const bytes = new Uint8Array(16);
  fillRandom(bytes);
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte[$.toString](16)[$.padStart](2, "0"))[$.join]("");
  return [hex[$.slice](0, 8), hex[$.slice](8, 12), hex[$.slice](12, 16), hex[$.slice](16, 20), hex[$.slice](20)][$.join]("-");
}

function hashName(algorithm) {
  const name = String(algorithm?.name ?? algorithm)[$.toUpperCase]();
  if (!(name in BLOCK)) throw new DOMException(`the digest "${name}" is not known`, "NotSupportedError");
  return name;
}

/// A key of HMAC; the only kind there is.
class CryptoKey {
  #bytes;

  constructor(bytes, hash, extractable, usages) {
    this.#bytes = bytes;
    this.type = "secret";
    this.extractable = extractable;
    this.algorithm = { name: "HMAC", hash: { name: hash }, length: bytes.length * 8 };
    this.usages = usages;
  }

  static bytes(key) {
    return key.#bytes;
  }
}

function hmac(key, data) {
  const hash = key.algorithm.hash.name;
  const block = BLOCK[hash];
  const raw = CryptoKey.bytes(key);
  const padded = new Uint8Array(block);
  padded[$.set](raw.length > block ? digest(hash, raw) : raw);
  const inner = digest(hash, concat(padded[$.map]((byte) => byte ^ 0x36), data));
  return digest(hash, concat(padded[$.map]((byte) => byte ^ 0x5c), inner));
}

function concat(first, second) {
  const joined = new Uint8Array(first.length + second.length);
  joined[$.set](first);
  joined[$.set](second, first.length);
  return joined;
}

const subtle = {
  async digest(algorithm, data) {
    return digest(hashName(algorithm), bytesOf(data)).buffer;
  },
  async importKey(format, data, algorithm, extractable, usages) {
    if (format !== "raw" || String(algorithm?.name ?? algorithm)[$.toUpperCase]() !== "HMAC") {
      throw new DOMException("importKey: only raw keys for HMAC are known", "NotSupportedError");
    }
    return new CryptoKey(bytesOf(data)[$.slice](), hashName(algorithm.hash), extractable === true, [...usages]);
  },
  async sign(_algorithm, key, data) {
    if (!(key instanceof CryptoKey) || !key.usages[$.includes]("sign")) {
      throw new DOMException("sign: the key is not for signing", "InvalidAccessError");
    }
    return hmac(key, bytesOf(data)).buffer;
  },
  async verify(_algorithm, key, signature, data) {
    if (!(key instanceof CryptoKey) || !key.usages[$.includes]("verify")) {
      throw new DOMException("verify: the key is not for verifying", "InvalidAccessError");
    }
    const expected = hmac(key, bytesOf(data));
    const given = bytesOf(signature);
    return given.length === expected.length && expected[$.reduce]((differs, byte, index) => differs | (byte ^ given[index]), 0) === 0;
  },
};

export const crypto = { getRandomValues, randomUUID, subtle };
