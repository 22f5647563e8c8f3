// Percent-encoding, with the sets of the URL standard.

import { $, String } from "../primordials.js";
import { TextDecoder, TextEncoder } from "./encoding.js";

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

const FRAGMENT = ' "<>`';
const QUERY = ' "#<>';
const PATH = `${QUERY}?^\`{}`;
const USERINFO = `${PATH}/:;=@[\\]|`;

export const SETS = { control: "", fragment: FRAGMENT, query: QUERY, specialQuery: `${QUERY}'`, path: PATH, userinfo: USERINFO };

/// What is in none of the sets.
const PLAIN = /^[\w.-]*$/;

/// `text` with everything outside printable ASCII, and what is in `set`, percent-encoded.
export function percentEncode(text, set) {
  if (PLAIN[$.test](text)) return text;
  let out = "";
  for (const char of text) {
    const code = char[$.codePointAt](0);
    if (code > 0x1f && code < 0x7f && !set[$.includes](char)) out += char;
    else for (const byte of encoder.encode(char)) out += `%${byte[$.toString](16)[$.toUpperCase]()[$.padStart](2, "0")}`;
  }
  return out;
}

export function percentDecode(text) {
  if (!text[$.includes]("%")) return text;
  const bytes = encoder.encode(text);
  const out = [];
  for (let at = 0; at < bytes.length; at++) {
    const hex = bytes[at] === 0x25 ? String.fromCharCode(...bytes[$.slice](at + 1, at + 3)) : "";
    if (/^[0-9a-f]{2}$/i[$.test](hex)) {
      out[$.push](parseInt(hex, 16));
      at += 2;
    } else out[$.push](bytes[at]);
  }
  return decoder.decode(new Uint8Array(out));
}
