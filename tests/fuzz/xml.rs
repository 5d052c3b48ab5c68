//! XML: arbitrary bytes take bounded time and memory and bring nothing down; and in well-formed
//! documents, which are made from the input, each value is found where it was put.

#![no_main]

mod growth;
mod memory;

use gatepost::event::Request;
use gatepost::select::{Items, Selector, Subject, find};
use libfuzzer_sys::fuzz_target;

/// The most levels below its root of a document that is made.
const DEEPEST: usize = 6;

const NAMES: [&str; 4] = ["a", "b", "a.b", "Größe"];

/// What texts are made of: as it is written, and what it means.
const TEXTS: [(&str, &str); 10] = [
    ("x", "x"),
    ("7 8", "7 8"),
    ("&amp;", "&"),
    ("&lt;&gt;", "<>"),
    ("&#65;&#x42;", "AB"),
    ("ไทย", "ไทย"),
    ("<![CDATA[<raw> & ]]>", "<raw> & "),
    ("<!-- no <a> -->", ""),
    ("<?no <a>?>", ""),
    ("\n", "\n"),
];

/// What attributes' values are made of.
const VALUES: [(&str, &str); 5] = [
    ("1", "1"),
    (">", ">"),
    ("&quot;&apos;", "\"'"),
    ("&#x41;", "A"),
    ("ไ", "ไ"),
];

const PATHS: [&str; 9] = [
    "a",
    "a/b",
    "a/b/a.b",
    "*/a",
    "*/*/*",
    "a/*@k",
    "a@k",
    "a/b@Größe",
    "b/Größe/a",
];

fuzz_target!(|data: &[u8]| {
    let request = gatepost::http::fuzz::request(data);
    let body = request.as_ref().map_or(data, |request| &request.body);
    let known = [
        "a/b",
        "EventNotificationAlert/macAddress",
        "*/*@k",
        "config/deviceInfo/mac",
    ];
    for path in known {
        let held = memory::most(|| _ = (value(path, body), count(path, body)));
        // A copy where it is not UTF-8, a value as it is and in digits, and some state.
        let most = 8 * body.len() + (64 << 10);
        assert!(
            held <= most,
            "{path} holds {held} bytes, {most} are allowed"
        );
    }
    growth::is_linear(body, growth::chance(data), |body| {
        _ = value(known[0], body);
    });
    well_formed(data);
});

fn well_formed(data: &[u8]) {
    let mut choices = Choices(data);
    let root = Element::choose(&mut choices, 0);
    let mut text = String::new();
    if choices.below(2) == 0 {
        text +=
            "\u{feff}<?xml version=\"1.0\" encoding=\"UTF-8\"?><!DOCTYPE a [<!ENTITY x \"y\">]>";
    }
    root.write(&mut text);
    for path in PATHS {
        let (steps, attribute) = path
            .split_once('@')
            .map_or((path, None), |(s, a)| (s, Some(a)));
        let steps: Vec<&str> = steps.split('/').collect();
        let mut values = Vec::new();
        root.find(&steps, attribute, &mut values);
        let trimmed = |value: &String| value.trim_matches(['\n', ' ']).to_owned();
        let expected = values.iter().map(trimmed).find(|value| !value.is_empty());
        assert_eq!(value(path, text.as_bytes()), expected, "{path} in {text}");
        let number = Some(values.len() as u64).filter(|number| 0 < *number);
        assert_eq!(count(path, text.as_bytes()), number, "{path} in {text}");
    }
}

fn value(path: &str, body: &[u8]) -> Option<String> {
    let request = Request {
        peer: ([127, 0, 0, 1], 1).into(),
        method: "POST".to_owned(),
        target: b"/".to_vec(),
        headers: Vec::new(),
        body: body.to_vec(),
        oversize: None,
    };
    let selector = Selector::parse(&format!("xml:{path}")).expect("it is right");
    find(&Subject::new(&request, &[]), &selector)
}

fn count(path: &str, body: &[u8]) -> Option<u64> {
    let items = Items::parse(&format!("xml:{path}")).expect("it is right");
    items.count(body)
}

/// The input, as what is decided by it.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn below(&mut self, limit: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else {
            return limit - 1;
        };
        self.0 = rest;
        usize::from(*first) % limit
    }
}

struct Element {
    name: &'static str,
    prefix: &'static str,
    attributes: Vec<(&'static str, (&'static str, &'static str))>,
    inside: Vec<Inside>,
}

enum Inside {
    Text(&'static str, &'static str),
    Element(Element),
}

impl Element {
    fn choose(choices: &mut Choices<'_>, depth: usize) -> Self {
        let mut element = Self {
            name: NAMES[choices.below(NAMES.len())],
            prefix: ["", "n:", ""][choices.below(3)],
            attributes: Vec::new(),
            inside: Vec::new(),
        };
        for name in ["k", "Größe"] {
            if choices.below(2) == 0 {
                element
                    .attributes
                    .push((name, VALUES[choices.below(VALUES.len())]));
            }
        }
        // No more input: no more of anything.
        while choices.below(4) != 3 {
            element.inside.push(match choices.below(2) {
                0 if depth < DEEPEST => Inside::Element(Self::choose(choices, depth + 1)),
                _ => {
                    let (written, means) = TEXTS[choices.below(TEXTS.len())];
                    Inside::Text(written, means)
                }
            });
        }
        element
    }

    fn write(&self, text: &mut String) {
        let name = format!("{}{}", self.prefix, self.name);
        *text += &format!("<{name}");
        for (name, (written, _)) in &self.attributes {
            *text += &format!(" {name} = \"{written}\"");
        }
        if self.inside.is_empty() {
            *text += " />";
            return;
        }
        *text += ">";
        for inside in &self.inside {
            match inside {
                Inside::Text(written, _) => *text += written,
                Inside::Element(element) => element.write(text),
            }
        }
        *text += &format!("</{name} >");
    }

    /// The values at `steps` below and with this element, in the order in which they are known: an
    /// attribute's at the beginning of its element, a text's at its end.
    fn find(&self, steps: &[&str], attribute: Option<&str>, values: &mut Vec<String>) {
        let Some((first, rest)) = steps.split_first() else {
            return;
        };
        if *first != "*" && *first != self.name {
            return;
        }
        let own = self.inside.iter().filter_map(|inside| match inside {
            Inside::Text(_, means) => Some(*means),
            Inside::Element(_) => None,
        });
        match attribute {
            _ if !rest.is_empty() => {}
            Some(name) => {
                let found = self.attributes.iter().find(|(known, _)| *known == name);
                values.extend(found.map(|(_, (_, means))| (*means).to_owned()));
            }
            None => values.push(own.collect()),
        }
        for inside in &self.inside {
            if let Inside::Element(element) = inside {
                element.find(rest, attribute, values);
            }
        }
    }
}
