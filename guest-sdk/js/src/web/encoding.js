// `TextEncoder` and `TextDecoder`, for UTF-8.
//
// A loop over characters costs some 0.4 µs for each; by way of the engine's own escapes and Base64 a character costs a tenth of that.

import {
  $, Object, String, atob, btoa, decodeURIComponent, encodeURIComponent, escape, fromBase64, isView, tagOf, unescape,
} from "../primordials.js";

/// Whether the engine has all that the short way needs.
const NATIVE = [atob, btoa, escape, unescape, fromBase64, Uint8Array.prototype[$.toBase64]][$.every]((own) => typeof own === "function");
/// Characters and bytes that go the short way at a time: on it a text is up to nine times as long as it is.
const PIECE = 0x4000;
const ASCII = /^[\0-\x7f]*$/;
const NOTHING = new Uint8Array(0);

export class TextEncoder {
  get encoding() {
    return "utf-8";
  }

  encode(input = "") {
    return utf8(String(input));
  }

  encodeInto(source, target) {
    return encodeInto(String(source), target);
  }
}

/// The bytes of a text; a surrogate that stands alone is U+FFFD.
export function utf8(text) {
  if (!NATIVE) {
    const bytes = new Uint8Array(text.length * 3);
    return bytes[$.slice](0, encodeInto(text, bytes).written);
  }
  const whole = text[$.toWellFormed]();
  if (whole.length <= PIECE) return utf8Piece(whole);
  const pieces = [];
  let size = 0;
  for (let at = 0; at < whole.length; ) {
    let end = at + PIECE;
    // Not between the halves of a pair.
    const last = whole[$.charCodeAt](end - 1);
    if (last >= 0xd800 && last <= 0xdbff) end--;
    const piece = utf8Piece(whole[$.slice](at, end));
    pieces[$.push](piece);
    size += piece.length;
    at = end;
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (let index = 0; index < pieces.length; at += pieces[index++].length) bytes[$.set](pieces[index], at);
  return bytes;
}

function utf8Piece(text) {
  return fromBase64(btoa(unescape(encodeURIComponent(text))));
}

function encodeInto(text, target) {
  let written = 0;
  let read = 0;
  while (read < text.length) {
    let code = text[$.codePointAt](read);
    const units = code > 0xffff ? 2 : 1;
    if (code >= 0xd800 && code <= 0xdfff) code = 0xfffd;
    const length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (written + length > target.length) break;
    if (length === 1) target[written] = code;
    else {
      for (let tail = length - 1; tail > 0; tail--, code >>= 6) target[written + tail] = 0x80 | (code & 0x3f);
      target[written] = [0, 0, 0xc0, 0xe0, 0xf0][length] | code;
    }
    written += length;
    read += units;
  }
  return { read, written };
}

const LABELS = ["utf-8", "utf8", "unicode-1-1-utf-8", "unicode11utf8", "unicode20utf8", "x-unicode20utf8"];

export class TextDecoder {
  #fatal;
  #ignoreBom;
  #pending = new Uint8Array(0);
  #started = false;

  constructor(label = "utf-8", options = {}) {
    if (!LABELS[$.includes](String(label)[$.trim]()[$.toLowerCase]())) throw new RangeError(`TextDecoder: only utf-8 is known, not "${label}"`);
    this.#fatal = options?.fatal === true;
    this.#ignoreBom = options?.ignoreBOM === true;
  }

  get encoding() {
    return "utf-8";
  }

  get fatal() {
    return this.#fatal;
  }

  get ignoreBOM() {
    return this.#ignoreBom;
  }

  decode(input, { stream = false } = {}) {
    const bytes = join(this.#pending, bytesOf(input));
    let { text, rest } = decodeUtf8(bytes, this.#fatal, stream);
    this.#pending = rest;
    if (!this.#started && text !== "") {
      this.#started = true;
      if (!this.#ignoreBom && text[$.charCodeAt](0) === 0xfeff) text = text[$.slice](1);
    }
    if (!stream) this.#started = false;
    return text;
  }
}

/// The text of bytes as a `TextDecoder` has it: without a mark of byte order at its beginning, U+FFFD for what is no UTF-8.
export function textOf(bytes) {
  const { text } = decodeUtf8(bytes, false, false);
  return text[$.charCodeAt](0) === 0xfeff ? text[$.slice](1) : text;
}

/// The bytes of a buffer or a view; a copy of neither.
export function bytesOf(input) {
  if (input === undefined) return new Uint8Array(0);
  if (isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
  if (isBuffer(input)) return new Uint8Array(input);
  throw new TypeError("expected an ArrayBuffer or a view of one");
}

export function isBuffer(value) {
  const tag = tagOf(value);
  return tag === "[object ArrayBuffer]" || tag === "[object SharedArrayBuffer]";
}

function join(first, second) {
  if (first.length === 0) return second;
  const joined = new Uint8Array(first.length + second.length);
  joined[$.set](first);
  joined[$.set](second, first.length);
  return joined;
}

/// Text of UTF-8; each maximal part of an ill-formed sequence becomes one U+FFFD. With `stream`, an unfinished sequence at
/// the end is left in `rest`.
function decodeUtf8(bytes, fatal, stream) {
  const valid = NATIVE ? decodeValid(bytes) : null;
  if (valid !== null) return { text: valid, rest: NOTHING };
  const parts = [];
  let units = [];
  let at = 0;
  while (at < bytes.length) {
    if (units.length > 4096) {
      parts[$.push](String.fromCharCode(...units));
      units = [];
    }
    const { code, length } = sequence(bytes, at);
    if (code === UNFINISHED && stream) break;
    if (code < 0) {
      if (fatal) throw new TypeError("TextDecoder: the bytes are no UTF-8");
      units[$.push](0xfffd);
    } else if (code > 0xffff) {
      units[$.push](0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff));
    } else units[$.push](code);
    at += length;
  }
  parts[$.push](String.fromCharCode(...units));
  return { text: parts[$.join](""), rest: bytes[$.slice](at) };
}

/// The text of bytes that are UTF-8 throughout; null for others.
function decodeValid(bytes) {
  if (bytes.length <= PIECE) return decodePiece(bytes);
  let text = "";
  for (let at = 0; at < bytes.length; ) {
    let end = at + PIECE;
    // Not within a sequence, whose later bytes are 10xxxxxx, three at most.
    for (let back = 0; back < 3 && (bytes[end] & 0xc0) === 0x80; back++) end--;
    const piece = decodePiece(bytes[$.slice](at, end));
    if (piece === null) return null;
    text += piece;
    at = end;
  }
  return text;
}

function decodePiece(bytes) {
  const binary = atob(bytes[$.toBase64]());
  if (ASCII[$.test](binary)) return binary;
  try {
    return decodeURIComponent(escape(binary));
  } catch {
    return null;
  }
}

const INVALID = -1;
const UNFINISHED = -2;

/// The code point at `at`, or that there is none, and how many bytes that takes.
function sequence(bytes, at) {
  const lead = bytes[at];
  if (lead < 0x80) return { code: lead, length: 1 };
  const size = lead >= 0xc2 && lead <= 0xdf ? 2 : lead >= 0xe0 && lead <= 0xef ? 3 : lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
  if (size === 0) return { code: INVALID, length: 1 };
  // The second byte's range excludes overlong forms, surrogates and what is above U+10FFFF.
  const low = lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80;
  const high = lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf;
  let code = lead & (0x7f >> size);
  for (let index = 1; index < size; index++) {
    const byte = bytes[at + index];
    if (byte === undefined) return { code: UNFINISHED, length: index };
    if (byte < (index === 1 ? low : 0x80) || byte > (index === 1 ? high : 0xbf)) return { code: INVALID, length: index };
    code = (code << 6) | (byte & 0x3f);
  }
  return { code, length: size };
}
