//! Which addresses a connection may go to: a module's requests must not reach the operator's own network by accident.
//!
//! The judgement falls on the resolved addresses that the connection then uses, so that a name that answers differently the
//! second time gains nothing. Which names a run may use at all is `destination`'s.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;

use super::destination::{Pattern, PatternError, Target};

/// What the operator opens beyond the public internet. By default nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    /// This machine: 127.0.0.0/8 and ::1.
    pub allow_loopback: bool,
    /// Private networks: RFC 1918, carrier-grade NAT, unique-local and site-local IPv6. Not link-local addresses, where cloud
    /// machines find their credentials: those are opened by name only.
    pub allow_private: bool,
    /// Networks and hosts that the operator names, whatever their kind.
    pub allow_net: Vec<AllowNet>,
}

/// One entry of the operator's allow-net list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowNet {
    /// `10.1.0.0/16`, `fd00::/8`, `192.168.1.7`.
    Net(IpNet),
    /// `db.internal`, `db.internal:8443`: whatever that very name resolves to. A wildcard opens no addresses, since whoever
    /// can make a name below it could point it anywhere.
    Host(Pattern),
}

impl FromStr for AllowNet {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        if let Ok(net) = text.parse::<IpNet>() {
            return Ok(Self::Net(net));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Net(address.into()));
        }
        let pattern: Pattern = text.parse()?;
        if pattern.is_wildcard() {
            return Err(PatternError::new(text, "only a network, an address or one exact host name opens addresses"));
        }
        Ok(Self::Host(pattern))
    }
}

impl AddressPolicy {
    /// Whether a connection for `target` may go to this address.
    pub(super) fn allows(&self, target: &Target, address: IpAddr) -> Result<(), Kind> {
        let address = address.to_canonical();
        let kind = Kind::of(address);
        let open = match kind {
            Kind::Public => true,
            Kind::Loopback => self.allow_loopback,
            Kind::Private => self.allow_private,
            Kind::LinkLocal | Kind::Special => false,
        };
        let named = || {
            self.allow_net.iter().any(|entry| match entry {
                AllowNet::Net(net) => net.contains(&address),
                AllowNet::Host(pattern) => pattern.matches(target),
            })
        };
        if open || named() { Ok(()) } else { Err(kind) }
    }
}

/// What an address is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Public,
    Loopback,
    Private,
    LinkLocal,
    Special,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "a public address",
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::LinkLocal => "a link-local or cloud metadata address",
            Self::Special => "an address that is no host's",
        })
    }
}

impl Kind {
    pub(super) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self::of_v4(v4),
            IpAddr::V6(v6) => Self::of_v6(v6),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        match address.octets() {
            [127, ..] => Self::Loopback,
            [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => Self::Private,
            // The second is a public address by its number, but on Azure it is the machine's own agent.
            [169, 254, ..] | [168, 63, 129, 16] => Self::LinkLocal,
            // "This network", protocol assignments, documentation, 6to4 relays, benchmarks, multicast, reserved, broadcast.
            [0, ..] | [192, 0, 0, _] | [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Self::Special,
            [192, 88, 99, _] | [198, 18..=19, ..] | [224..=255, ..] => Self::Special,
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        let segments = address.segments();
        match segments {
            [0, 0, 0, 0, 0, 0, 0, 1] => Self::Loopback,
            // AWS's metadata service lies within the unique-local range.
            [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] => Self::LinkLocal,
            [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Self::Private,
            [0xfe80..=0xfebf, ..] => Self::LinkLocal,
            // NAT64: what the IPv4 address in it is.
            [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                Self::of_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
            }
            // Teredo and other protocol assignments, documentation, 6to4: tunnels may end anywhere.
            [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..=0xfff, ..] => Self::Special,
            [0x2000..=0x3fff, ..] => Self::Public,
            // Only 2000::/3 is global unicast.
            _ => Self::Special,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_has_its_kind() {
        let table = [
            (Kind::Public, "8.8.8.8 1.1.1.1 172.32.0.1 100.128.0.1 2606:4700::1111 ::ffff:8.8.8.8 64:ff9b::808:808"),
            (Kind::Loopback, "127.0.0.1 127.255.255.254 ::1 ::ffff:127.0.0.1 64:ff9b::7f00:1"),
            (
                Kind::Private,
                "10.0.0.1 172.16.0.1 172.31.255.255 192.168.0.1 100.64.0.1 fc00::1 fd12::1 fec0::1 ::ffff:10.0.0.1",
            ),
            (Kind::LinkLocal, "169.254.169.254 fe80::1 ::ffff:169.254.169.254 fd00:ec2::254 168.63.129.16"),
            (
                Kind::Special,
                "0.0.0.0 :: 224.0.0.1 255.255.255.255 240.0.0.1 198.18.0.1 192.0.2.1 2001:db8::1 2002:7f00:1:: 2001::1 ff02::1 ::127.0.0.1",
            ),
        ];
        for (kind, addresses) in table {
            for address in addresses.split(' ') {
                assert_eq!(Kind::of(address.parse().unwrap()), kind, "{address}");
            }
        }
    }

    #[test]
    fn the_operator_opens_what_is_named() {
        let target = Target::of(&"http://db.internal:5000/".parse().unwrap()).unwrap();
        let allows = |policy: &AddressPolicy, address: &str| policy.allows(&target, address.parse().unwrap()).is_ok();
        let mut policy = AddressPolicy { allow_private: true, ..AddressPolicy::default() };
        assert!(allows(&policy, "10.0.0.1") && !allows(&policy, "127.0.0.1") && !allows(&policy, "169.254.169.254"));
        policy = AddressPolicy { allow_net: vec!["10.1.0.0/16".parse().unwrap()], ..AddressPolicy::default() };
        assert!(allows(&policy, "10.1.2.3") && allows(&policy, "::ffff:10.1.2.3") && !allows(&policy, "10.2.0.1"));
        policy = AddressPolicy { allow_net: vec!["db.internal:5000".parse().unwrap()], ..AddressPolicy::default() };
        assert!(allows(&policy, "10.2.0.1") && allows(&policy, "127.0.0.1"));
        policy = AddressPolicy { allow_net: vec!["other.internal:5000".parse().unwrap()], ..AddressPolicy::default() };
        assert!(!allows(&policy, "10.2.0.1"));
        assert!("*.internal".parse::<AllowNet>().is_err());
    }
}
