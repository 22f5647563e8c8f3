// Hosts of URLs: domains (with Punycode), IPv4 and IPv6 addresses, as the URL standard serialises them.

import { $, Array, Math, Number, String } from "../primordials.js";

const FORBIDDEN = /[\u0000-\u0020"#%/:<>?@[\\\]^`{|}\u007f]/;
/// What is a domain as it stands.
const PLAIN = /^[a-z0-9.-]*$/;
const FORBIDDEN_OPAQUE = /[\u0000\t\n\r #/:<>?@[\\\]^|]/;

/// The serialised host, or null where it is none.
export function parseHost(input, special, decode, encode) {
  if (input[$.startsWith]("[")) return input[$.endsWith]("]") ? wrap(parseIpv6(input[$.slice](1, -1))) : null;
  if (!special) return FORBIDDEN_OPAQUE[$.test](input) ? null : encode(input);
  const domain = toAscii(decode(input));
  if (domain === null || domain === "" || FORBIDDEN[$.test](domain)) return null;
  return endsInNumber(domain) ? parseIpv4(domain) : domain;
}

function wrap(address) {
  return address === null ? null : `[${address}]`;
}

function toAscii(domain) {
  if (PLAIN[$.test](domain)) return domain;
  const labels = domain[$.normalize]("NFKC")[$.toLowerCase]()[$.normalize]("NFC")[$.replace](/[\u3002\uff0e\uff61]/g, ".")[$.replace](/\u00ad/g, "")[$.split](".");
  const ascii = labels[$.map]((label) => (/[^\0-\x7f]/[$.test](label) ? punycode(label) : label));
  return ascii[$.includes](null) ? null : ascii[$.join](".");
}

/// RFC 3492, with the prefix.
function punycode(label) {
  const points = Array.from(label, (char) => char[$.codePointAt](0));
  const basic = points[$.filter]((point) => point < 0x80);
  let out = String.fromCharCode(...basic) + (basic.length ? "-" : "");
  let handled = basic.length;
  let [n, delta, bias] = [0x80, 0, 72];
  while (handled < points.length) {
    const next = Math.min(...points[$.filter]((point) => point >= n));
    delta += (next - n) * (handled + 1);
    n = next;
    for (const point of points) {
      if (point < n) delta++;
      if (point !== n) continue;
      out += variableLength(delta, bias);
      bias = adapt(delta, handled + 1, handled === basic.length);
      delta = 0;
      handled++;
    }
    delta++;
    n++;
  }
  return out.length > 59 ? null : `xn--${out}`;
}

function variableLength(delta, bias) {
  let out = "";
  for (let k = 36; ; k += 36) {
    const threshold = Math.min(Math.max(k - bias, 1), 26);
    if (delta < threshold) return out + digit(delta);
    out += digit(threshold + ((delta - threshold) % (36 - threshold)));
    delta = Math.floor((delta - threshold) / (36 - threshold));
  }
}

const digit = (value) => "abcdefghijklmnopqrstuvwxyz0123456789"[value];

function adapt(delta, points, first) {
  let rest = Math.floor(delta / (first ? 700 : 2));
  rest += Math.floor(rest / points);
  let k = 0;
  for (; rest > 455; k += 36) rest = Math.floor(rest / 35);
  return k + Math.floor((36 * rest) / (rest + 38));
}

function endsInNumber(domain) {
  const parts = domain[$.split](".");
  if (parts[$.at](-1) === "" && parts.length > 1) parts[$.pop]();
  return /^\d+$/[$.test](parts[$.at](-1)) || /^0x[0-9a-f]*$/i[$.test](parts[$.at](-1));
}

function parseIpv4(domain) {
  const parts = domain[$.split](".");
  if (parts[$.at](-1) === "" && parts.length > 1) parts[$.pop]();
  if (parts.length > 4) return null;
  const numbers = parts[$.map](ipv4Number);
  const last = numbers[$.pop]();
  if (numbers[$.some]((number) => !(number <= 255)) || !(last < 256 ** (4 - numbers.length))) return null;
  const address = numbers[$.reduce]((sum, number, index) => sum + number * 256 ** (3 - index), last);
  return [24, 16, 8, 0][$.map]((shift) => Math.floor(address / 2 ** shift) % 256)[$.join](".");
}

function ipv4Number(part) {
  if (/^0x[0-9a-f]*$/i[$.test](part)) return parseInt(part[$.slice](2) || "0", 16);
  if (/^0[0-7]*$/[$.test](part)) return parseInt(part, 8);
  return /^[1-9]\d*$/[$.test](part) ? Number(part) : NaN;
}

/// The address in its shortest form, or null.
function parseIpv6(input) {
  let source = input;
  const tail = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/[$.exec](source);
  if (tail) {
    const bytes = tail[2][$.split](".");
    if (bytes[$.some]((byte) => !/^(0|[1-9]\d{0,2})$/[$.test](byte) || Number(byte) > 255)) return null;
    const [a, b, c, d] = bytes[$.map](Number);
    source = `${tail[1]}${(a * 256 + b)[$.toString](16)}:${(c * 256 + d)[$.toString](16)}`;
  }
  const halves = source[$.split]("::");
  if (halves.length > 2) return null;
  const [before, after] = halves[$.map]((half) => (half === "" ? [] : half[$.split](":")));
  const pieces = after === undefined ? before : [...before, ...zeros(8 - before.length - after.length), ...after];
  if (pieces.length !== 8 || (after !== undefined && before.length + after.length > 7)) return null;
  if (pieces[$.some]((piece) => !/^[0-9a-f]{1,4}$/i[$.test](piece))) return null;
  return compress(pieces[$.map]((piece) => parseInt(piece, 16)));
}

function zeros(count) {
  return Array.from({ length: Math.max(0, count) }, () => "0");
}

function compress(pieces) {
  let best = { start: -1, length: 1 };
  for (let start = 0; start < 8; start++) {
    let length = 0;
    while (pieces[start + length] === 0) length++;
    if (length > best.length) best = { start, length };
  }
  const hex = pieces[$.map]((piece) => piece[$.toString](16));
  if (best.start < 0) return hex[$.join](":");
  return `${hex[$.slice](0, best.start)[$.join](":")}::${hex[$.slice](best.start + best.length)[$.join](":")}`;
}
