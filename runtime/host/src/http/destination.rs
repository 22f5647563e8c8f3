//! Destinations: where a request goes, and the patterns by which modules and operators say where requests may go.
//!
//! A pattern is `[scheme://]host[:port]`.
//! - host: a name or address, in any spelling that a URL may have; `*.example.com`, every name below example.com but not itself; `*`.
//! - port: none means the scheme's own (443 or 80) and no other; `:*` means any.
//! - scheme: none means both.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use url::{Host, Url};

/// `http` or `https`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "http" => Some(Self::Http),
            "https" => Some(Self::Https),
            _ => None,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// Where a request goes. Two requests with the same target may share a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Target {
    pub(super) scheme: Scheme,
    /// In the URL's normal form, without a final dot.
    pub(super) host: Host<String>,
    pub(super) port: u16,
}

impl Target {
    /// The target of a URL, if it is `http` or `https` and has a host.
    pub(super) fn of(url: &Url) -> Option<Self> {
        let scheme = Scheme::parse(url.scheme())?;
        let host = without_final_dot(url.host()?.to_owned());
        Some(Self { scheme, host, port: url.port_or_known_default()? })
    }

    /// The address, where the host is one.
    pub(super) fn address(&self) -> Option<IpAddr> {
        match self.host {
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.into()),
            Host::Domain(_) => None,
        }
    }

    /// The host alone, as `getaddrinfo` takes it.
    pub(super) fn host_text(&self) -> String {
        match &self.host {
            Host::Ipv6(address) => address.to_string(),
            other => other.to_string(),
        }
    }

    /// `host` or `host:port`, as it stands in the `Host` header.
    pub(super) fn authority(&self) -> String {
        if self.port == self.scheme.default_port() {
            self.host.to_string()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// This machine, as far as the name tells.
    pub(super) fn is_loopback(&self) -> bool {
        match &self.host {
            Host::Domain(name) => name == "localhost",
            _ => self.address().is_some_and(|a| a.to_canonical().is_loopback()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.authority())
    }
}

fn without_final_dot(host: Host<String>) -> Host<String> {
    match host {
        Host::Domain(name) => Host::Domain(name.strip_suffix('.').map(str::to_owned).unwrap_or(name)),
        address => address,
    }
}

/// A pattern that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{pattern}` is no destination: {why}. Write `api.example.com`, `*.example.com:8443` or `http://127.0.0.1:8080`"
)]
pub struct PatternError {
    /// What was given.
    pub pattern: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl PatternError {
    pub(super) fn new(pattern: &str, why: &'static str) -> Self {
        Self { pattern: pattern.to_owned(), why }
    }
}

/// One pattern, e.g. `api.stripe.com` or `*.example.com:8443`. The module's comment has the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    scheme: Option<Scheme>,
    host: HostPattern,
    port: PortPattern,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostPattern {
    Any,
    Exact(Host<String>),
    /// With its leading dot.
    Below(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PortPattern {
    OfScheme,
    Any,
    Number(u16),
}

impl Pattern {
    pub(super) fn matches(&self, target: &Target) -> bool {
        let host = match (&self.host, &target.host) {
            (HostPattern::Any, _) => true,
            (HostPattern::Exact(host), other) => host == other,
            (HostPattern::Below(suffix), Host::Domain(name)) => name.len() > suffix.len() && name.ends_with(suffix),
            (HostPattern::Below(_), _) => false,
        };
        let port = match self.port {
            PortPattern::OfScheme => target.port == target.scheme.default_port(),
            PortPattern::Any => true,
            PortPattern::Number(port) => port == target.port,
        };
        host && port && self.scheme.is_none_or(|s| s == target.scheme)
    }

    pub(super) fn is_wildcard(&self) -> bool {
        !matches!(self.host, HostPattern::Exact(_))
    }

    /// Whether the pattern itself asks for plain HTTP.
    pub(super) fn names_plain_http(&self) -> bool {
        self.scheme == Some(Scheme::Http)
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let fail = |why| PatternError::new(text, why);
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => {
                (Some(Scheme::parse(scheme).ok_or_else(|| fail("the scheme is neither http nor https"))?), rest)
            }
            None => (None, text),
        };
        if rest.contains(['/', '?', '#', '@']) {
            return Err(fail("it has more than a host and a port"));
        }
        // A colon within brackets, or one of several, belongs to an IPv6 address.
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (rest, None),
        };
        let port = match port {
            None => PortPattern::OfScheme,
            Some("*") => PortPattern::Any,
            Some(port) => {
                PortPattern::Number(port.parse().ok().filter(|p| *p > 0).ok_or_else(|| fail("the port is no port"))?)
            }
        };
        let parse =
            |host: &str| Host::parse(host).map(without_final_dot).map_err(|_| fail("the host is no name or address"));
        let host = match host.strip_prefix("*.") {
            _ if host == "*" => HostPattern::Any,
            _ if host.is_empty() => return Err(fail("it has no host")),
            None if host.contains('*') => return Err(fail("a `*` may only stand first, before a dot")),
            None => HostPattern::Exact(parse(host)?),
            Some(below) => match parse(below)? {
                Host::Domain(name) if !name.contains('*') => HostPattern::Below(format!(".{name}")),
                _ => return Err(fail("nothing lies below an address")),
            },
        };
        Ok(Self { scheme, host, port })
    }
}

/// Where the requests of a run may go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Destinations {
    /// Anywhere. What addresses are open is decided beside this.
    Any,
    /// To these; to none if there are none.
    #[default]
    None,
    /// To what one of these patterns matches.
    Only(Vec<Pattern>),
}

impl Destinations {
    /// From patterns as a module declares them.
    ///
    /// # Errors
    /// The first that is no pattern.
    pub fn parse<T: AsRef<str>>(patterns: &[T]) -> Result<Self, PatternError> {
        patterns.iter().map(|p| p.as_ref().parse()).collect::<Result<_, _>>().map(Self::Only)
    }

    pub(super) fn allow(&self, target: &Target) -> bool {
        match self {
            Self::Any => true,
            Self::None => false,
            Self::Only(patterns) => patterns.iter().any(|p| p.matches(target)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_what_they_say() {
        let matches = |pattern: &str, url: &str| {
            pattern.parse::<Pattern>().unwrap().matches(&Target::of(&url.parse().unwrap()).unwrap())
        };
        for (pattern, yes, no) in [
            (
                "api.stripe.com",
                "https://api.stripe.com/ http://API.Stripe.com/x https://api.stripe.com./ https://api.stripe.com:443/",
                "https://api.stripe.com:8443/ https://stripe.com/ https://evil-api.stripe.com/ https://api.stripe.com.evil.net/",
            ),
            (
                "*.example.com:8443",
                "https://a.example.com:8443/ http://a.b.example.com:8443/",
                "https://example.com:8443/ https://a.example.com/ https://aexample.com:8443/",
            ),
            (
                "127.0.0.1:8080",
                "http://127.0.0.1:8080/ http://2130706433:8080/ http://0x7f.1:8080/",
                "http://127.0.0.1/ http://[::1]:8080/",
            ),
            ("[::1]:8080", "http://[::1]:8080/ http://[0:0::1]:8080/", "http://127.0.0.1:8080/"),
            ("https://pay.example", "https://pay.example/", "http://pay.example/"),
            ("*", "https://a.example/ http://10.0.0.1/", "https://a.example:8443/"),
            ("*:*", "https://a.example:8443/", ""),
            ("bücher.example", "https://xn--bcher-kva.example/", "https://bucher.example/"),
        ] {
            yes.split_whitespace().for_each(|url| assert!(matches(pattern, url), "{pattern} {url}"));
            no.split_whitespace().for_each(|url| assert!(!matches(pattern, url), "{pattern} {url}"));
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in [
            "",
            ":80",
            "a.example/x",
            "ftp://a.example",
            "a.*.example",
            "a.example:0",
            "a.example:99999",
            "*.",
            "*.10.0.0.1",
            "u@a.example",
            "a b",
        ] {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
    }
}
