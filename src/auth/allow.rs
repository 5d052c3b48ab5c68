//! Networks that senders may be in: `10.0.0.0/8`, `fe80::/10`, or one address.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A network, or one address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Net {
    address: IpAddr,
    length: u32,
}

impl Net {
    /// Reads what an operator wrote. A network of IPv4 addresses that are mapped to IPv6 is one of
    /// IPv4, as peers are.
    ///
    /// # Errors
    ///
    /// Says in words what is wrong and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let whole = |address: &IpAddr| if address.is_ipv4() { 32 } else { 128 };
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let net = address.parse::<IpAddr>().ok().and_then(|address| {
            let length = match length {
                Some(length) if is_number(length) => length.parse().ok()?,
                Some(_) => return None,
                None => whole(&address),
            };
            let net = Self { address, length };
            (length <= whole(&address)).then_some(net)
        });
        let net = net.ok_or_else(|| {
            format!(
                "\"{text}\" is no network; write \"10.0.0.0/8\", \"fe80::/10\" or one address, in \
                 numbers"
            )
        })?;
        if net.first() != net.address {
            let right = Self {
                address: net.first(),
                length: net.length,
            };
            return Err(format!(
                "\"{text}\" is an address within a network; write \"{right}\" for all of it, or \
                 \"{}\"",
                net.address
            ));
        }
        Ok(net.canonical())
    }

    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let of = Self {
            address: address.to_canonical(),
            length: self.length,
        };
        self.address.is_ipv4() == of.address.is_ipv4() && of.first() == self.address
    }

    /// The first address of it.
    fn first(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - self.length).unwrap_or(0);
                IpAddr::from((u32::from(address) & mask).to_be_bytes())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - self.length).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(address) & mask))
            }
        }
    }

    fn canonical(self) -> Self {
        match (self.address.to_canonical(), self.address, self.length) {
            (address @ IpAddr::V4(_), IpAddr::V6(_), 96..) => Self {
                address,
                length: self.length - 96,
            },
            _ => self,
        }
    }
}

/// As it was written; one address without a length.
impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = if self.address.is_ipv4() { 32 } else { 128 };
        write!(f, "{}", self.address)?;
        if self.length != whole {
            write!(f, "/{}", self.length)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_a_network_or_not() {
        let rows = [
            ("10.0.0.0/8", "10.255.0.7", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.0.0.0/8", "::ffff:10.0.0.7", true),
            ("10.0.0.0/8", "::ffff:11.0.0.7", false),
            ("::ffff:10.0.0.0/104", "10.0.0.7", true),
            ("::ffff:10.0.0.0/104", "11.0.0.7", false),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.6", false),
            ("192.0.2.7/32", "::ffff:192.0.2.7", true),
            ("192.0.2.0/25", "192.0.2.127", true),
            ("192.0.2.0/25", "192.0.2.128", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "10.0.0.7", false),
            ("fe80::/10", "fe80::1", true),
            ("fe80::/10", "febf::1", true),
            ("fe80::/10", "fec0::1", false),
            ("2001:db8::1", "2001:db8::1", true),
            ("2001:db8::1", "2001:db8::2", false),
        ];
        for (net, address, expected) in rows {
            let found = Net::parse(net).expect(net);
            let address: IpAddr = address.parse().expect("an address");
            assert_eq!(found.contains(address), expected, "{net} {address}");
        }
    }

    #[test]
    fn what_is_no_network_is_explained() {
        for text in [
            "",
            "door",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "fe80::/129",
            "10.0.0/8",
            "10.0.0.0/",
            "fe80::1%eth0",
        ] {
            let why = Net::parse(text).expect_err(text);
            assert!(
                why.starts_with(&format!("\"{text}\" is no network")),
                "{why}"
            );
        }
        assert_eq!(
            Net::parse("10.1.2.3/8").expect_err("host bits"),
            "\"10.1.2.3/8\" is an address within a network; write \"10.0.0.0/8\" for all of it, \
             or \"10.1.2.3\""
        );
        let shown = Net::parse("192.0.2.7/32").map(|net| net.to_string());
        assert_eq!(shown.as_deref(), Ok("192.0.2.7"));
    }
}
