//! Arbitrary selectors over arbitrary requests. Up to the first NUL an input is selectors, one a
//! line; the rest is a request. Without a NUL all of it is, and the selectors are those of the
//! profiles.
//!
//! What must hold: what is written back is read as the same; a list finds what its first selector
//! finds alone that finds something; JSON is found where a parser that builds trees finds it.

#![no_main]

mod growth;

use std::sync::LazyLock;

use gatepost::config::Profiles;
use gatepost::event::Request;
use gatepost::select::{
    Items, LONGEST_LIST, LONGEST_VALUE, MOST_POINTERS, Selector, Subject, find, read,
};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

static KNOWN: LazyLock<Vec<Selector>> = LazyLock::new(|| {
    let profiles = Profiles::embedded().expect("a test reads them");
    let mut known = Vec::new();
    for profile in profiles.iter() {
        let route = &profile.route;
        let lists = [&route.event_id, &route.device, &route.event_time];
        for selector in lists.into_iter().flatten() {
            if !known.contains(selector) {
                known.push(selector.clone());
            }
        }
    }
    known
});

fuzz_target!(|data: &[u8]| {
    let nul = data.iter().position(|byte| *byte == 0);
    let (texts, wire) = nul.map_or((&[][..], data), |nul| (&data[..nul], &data[nul + 1..]));
    let Some(request) = gatepost::http::fuzz::request(wire) else {
        return;
    };
    let own: Vec<Selector> = String::from_utf8_lossy(texts)
        .lines()
        .take(3 * LONGEST_LIST)
        .filter_map(selector)
        .collect();
    let chance = growth::chance(data);
    let all = if nul.is_some() { &own } else { &*KNOWN };
    let skip = chance as usize % (all.len() + 1);
    let chosen: Vec<&Selector> = all
        .iter()
        .cycle()
        .skip(skip)
        .take(all.len().min(20))
        .collect();
    agree(&request, &chosen);
    growth::is_linear(&request.body, chance, |body| {
        let request = Request {
            body: body.to_vec(),
            ..request.clone()
        };
        // One at a time, or the slowest hides behind the others.
        for selector in chosen.iter().take(1) {
            _ = find(&Subject::new(&request, &[]), selector);
        }
    });
});

fn selector(text: &str) -> Option<Selector> {
    if let Ok(items) = Items::parse(text) {
        assert_eq!(Items::parse(&items.to_string()), Ok(items));
    }
    let selector = Selector::parse(text).ok()?;
    let printed = selector.to_string();
    assert_eq!(
        Selector::parse(&printed).as_ref(),
        Ok(&selector),
        "{printed}"
    );
    Some(selector)
}

/// What one walk finds for several lists is what each of their selectors finds alone.
fn agree(request: &Request, selectors: &[&Selector]) {
    let holes = [("device".to_owned(), request.target.clone())];
    let subject = Subject::new(request, &holes);
    let third = selectors.len().div_ceil(3).clamp(1, LONGEST_LIST);
    let list = |number: usize| -> Vec<Selector> {
        let list = selectors.iter().skip(number * third).take(third);
        list.map(|selector| (*selector).clone()).collect()
    };
    let lists = [list(0), list(1), list(2)];
    let pointers: usize = lists.iter().flatten().map(Selector::pointers).sum();
    if MOST_POINTERS < pointers {
        return;
    }
    let values = read(&subject, [&lists[0], &lists[1], &lists[2]]);
    for (index, list) in lists.iter().enumerate() {
        let alone = list.iter().find_map(|selector| {
            let found = find(&subject, selector);
            found.inspect(|found| is_a_value(found, selector, request))
        });
        assert_eq!(values.found()[index], alone, "list {index}: {list:?}");
        if alone.is_none() {
            assert!(!values.why_not(index).is_empty());
        }
    }
}

fn is_a_value(found: &str, selector: &Selector, request: &Request) {
    assert!(
        !found.is_empty() && found.len() <= LONGEST_VALUE,
        "{found:?}"
    );
    let text = selector.to_string();
    let Some(pointer) = text.strip_prefix("json:").filter(|_| !text.contains(" + ")) else {
        return;
    };
    let Ok(tree) = serde_json::from_slice::<Value>(&request.body) else {
        return;
    };
    match tree.pointer(pointer) {
        Some(Value::String(text)) => assert_eq!(found, text, "{pointer}"),
        Some(Value::Bool(is)) => assert_eq!(found, is.to_string(), "{pointer}"),
        Some(Value::Number(_)) => {}
        other => unreachable!("{pointer} is {other:?}, not {found:?}"),
    }
}
