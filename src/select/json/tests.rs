//! What pointers find in bodies, and what is said of those that are no JSON.

use super::*;

fn find(body: &[u8], pointers: &[&str]) -> Result<Vec<Option<String>>, String> {
    let parse = |text: &&str| Pointer::parse(text).expect("the test writes it right");
    let pointers: Vec<_> = pointers.iter().map(parse).collect();
    let mut wanted = Wanted::default();
    for pointer in &pointers {
        wanted.add(pointer);
    }
    let document = wanted.find_in(body).map_err(|why| why.to_string())?;
    let text = |pointer| document.text(pointer).map(Cow::into_owned);
    Ok(pointers.iter().map(text).collect())
}

#[test]
fn a_pointer_finds_text_numbers_and_truth_values() {
    let body = br#" {"id":"e-1","n":12345678901234567890123,"f":-1.50e+3,"t":true,"no":false,
        "null":null,"empty":"","esc":"\u00e9\n\"","half":"\ud83d","o":{"x":[7,{"y":"deep"}]},
        "a/b":1,"m~n":2,"":3,"e":1e999,"0":"zero"} "#;
    let rows = [
        ("/id", Some("e-1")),
        ("/n", Some("12345678901234567890123")),
        ("/f", Some("-1.50e+3")),
        ("/t", Some("true")),
        ("/no", Some("false")),
        ("/null", None),
        ("/empty", None),
        ("/esc", Some("\u{e9}\n\"")),
        ("/half", Some("\\ud83d")),
        ("/o", None),
        ("/o/x", None),
        ("/o/x/0", Some("7")),
        ("/o/x/1/y", Some("deep")),
        ("/o/x/2", None),
        ("/o/x/-", None),
        ("/o/x/00", None),
        ("/o/x/+1", None),
        ("/id/0", None),
        ("/a~1b", Some("1")),
        ("/m~0n", Some("2")),
        ("/", Some("3")),
        ("/e", Some("1e999")),
        ("/0", Some("zero")),
        ("/missing", None),
        ("", None),
    ];
    for (pointer, expected) in rows {
        let found = find(body, &[pointer]).expect("it is JSON");
        assert_eq!(found[0].as_deref(), expected, "{pointer}");
    }
    for some in rows.chunks(7) {
        let pointers: Vec<_> = some.iter().map(|row| row.0).collect();
        let found = find(body, &pointers).expect("it is JSON");
        for (found, row) in found.iter().zip(some) {
            assert_eq!(found.as_deref(), row.1, "{} among {pointers:?}", row.0);
        }
    }
}

#[test]
fn any_value_is_a_document() {
    let rows: &[(&[u8], &str, Option<&str>)] = &[
        (b"\"e-1\"", "", Some("e-1")),
        (b"17\r\n", "", Some("17")),
        (b"[1,[2]]", "/1/0", Some("2")),
        (b"null", "/a", None),
        (b"-0", "/a", None),
        (b"\xef\xbb\xbf{\"a\":1}", "/a", Some("1")),
        (b"{\"a\":1}\0", "/a", Some("1")),
        (b"{\"a\":1}\r\n\0\0", "/a", Some("1")),
        (b"{\"\xc4\xe3\":\"\xba\xc3\",\"a\":1}", "/a", Some("1")),
    ];
    for (body, pointer, expected) in rows {
        let shown = String::from_utf8_lossy(body);
        let found = find(body, &[pointer]).expect("it is JSON");
        assert_eq!(found[0].as_deref(), *expected, "{shown}");
    }
}

#[test]
fn what_is_no_text_is_found_in_digits_and_hides_nothing_else() {
    let body =
        b"{\"name\":\"\xd5\xc5\",\"mixed\":\"\\u00e9 \xff\",\"\xff\":1,\"half\":\"\\ud83d\",\
        \"e\":1e999,\"o\":{\"id\":\"e-1\",\"\xff\":[\"\xfe\",2]},\"blank\":\" \"}";
    let rows = [
        ("/name", Some("hex:d5c5")),
        ("/mixed", Some("hex:c3a920ff")),
        ("/half", Some("\\ud83d")),
        ("/e", Some("1e999")),
        ("/blank", Some(" ")),
        ("/o/id", Some("e-1")),
        ("/o", None),
        ("/name/x", None),
        ("/half/x", None),
        ("/e/x", None),
        ("", None),
    ];
    for (pointer, expected) in rows {
        let found = find(body, &[pointer]).expect("it is JSON");
        assert_eq!(found[0].as_deref(), expected, "{pointer}");
    }
    let pointers = rows.map(|row| row.0);
    let found = find(body, &pointers).expect("it is JSON");
    for (found, row) in found.iter().zip(rows) {
        assert_eq!(found.as_deref(), row.1, "{} among all", row.0);
    }
    let items = Pointer::parse("/o").expect("a right one");
    assert_eq!(length(&items, b"{\"o\":[\"\xfe\",2]}"), Some(2));
}

#[test]
fn of_equal_names_the_last_counts() {
    type Row<'a> = (&'a str, &'a [&'a str], &'a [Option<&'a str>]);
    let rows: &[Row<'_>] = &[
        (r#"{"a":1,"a":2}"#, &["/a"], &[Some("2")]),
        (r#"{"a":1,"a":null}"#, &["/a"], &[None]),
        (r#"{"a":{"b":1},"a":{}}"#, &["/a/b"], &[None]),
        (
            r#"{"a":{"b":1},"a":5}"#,
            &["/a/b", "/a"],
            &[None, Some("5")],
        ),
        (r#"{"a":5,"\u0061":6}"#, &["/a"], &[Some("6")]),
    ];
    for (body, pointers, expected) in rows {
        let found = find(body.as_bytes(), pointers).expect("it is JSON");
        let found: Vec<_> = found.iter().map(Option::as_deref).collect();
        assert_eq!(found, *expected, "{body}");
    }
}

#[test]
fn what_is_not_wholly_json_finds_nothing_and_says_where() {
    let rows: &[(&[u8], &str)] = &[
        (b"", "body is empty"),
        (b" \r\n", "body is empty"),
        (
            br#"{"a":1"#,
            "body is not JSON: EOF while parsing an object at line 1 column 6",
        ),
        (
            br#"{"a":1 "b":2}"#,
            "body is not JSON: expected `,` or `}` at line 1 column 8",
        ),
        (
            b"{\"a\":1,\n\"b\":nil}",
            "body is not JSON: expected ident at line 2 column 6",
        ),
        (
            br#"{"a":1}{"a":2}"#,
            "body is not JSON: trailing characters at line 1 column 8",
        ),
        (
            br"{'a':1}",
            "body is not JSON: key must be a string at line 1 column 2",
        ),
        (
            b"eventId=7&deviceId=8",
            "body is not JSON: expected value at line 1 column 1",
        ),
    ];
    for (body, why) in rows {
        let shown = String::from_utf8_lossy(body);
        let found = find(body, &["/a"]).expect_err(&shown);
        assert_eq!(found, *why, "{shown}");
    }
}

#[test]
fn depth_is_bounded_and_brackets_in_text_are_not_depth() {
    let nested = |levels: usize| {
        let (open, close) = ("[".repeat(levels - 1), "]".repeat(levels - 1));
        format!(
            "{{\"text\":\"{}\\\"\",\n\"deep\":{open}{close},\"a\":1}}",
            "[".repeat(500)
        )
    };
    let found = find(nested(128).as_bytes(), &["/a"]);
    assert_eq!(found, Ok(vec![Some("1".to_owned())]));
    assert_eq!(
        find(nested(129).as_bytes(), &["/a"]),
        Err("body is not JSON: more than 128 levels at line 2 column 135".to_owned())
    );
    let bomb = vec![b'['; 1 << 20];
    assert!(find(&bomb, &["/a/0/0"]).is_err());
    let longest = "/0".repeat(LONGEST);
    let arrays = "[".repeat(LONGEST) + "5" + &"]".repeat(LONGEST);
    let found = find(arrays.as_bytes(), &[&longest]);
    assert_eq!(found, Ok(vec![Some("5".to_owned())]));
}

#[test]
fn nothing_is_copied_from_the_body_but_what_is_asked_for() {
    let body = br#"{"id":"plain","esc":"a\tb"}"#;
    let pointers = ["/id", "/esc"].map(|text| Pointer::parse(text).expect("it is a pointer"));
    let mut wanted = Wanted::default();
    for pointer in &pointers {
        wanted.add(pointer);
    }
    let document = wanted.find_in(body).expect("it is JSON");
    let [id, esc] = pointers.each_ref().map(|pointer| document.text(pointer));
    assert!(matches!(id, Some(Cow::Borrowed("plain"))), "{id:?}");
    assert!(matches!(esc, Some(Cow::Owned(_))), "{esc:?}");
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(body: Vec<u8>, id: String) {
        _ = find(&body, &["/a/0", "/a", ""]);
        let json = serde_json::json!({"x": [id], "id": id}).to_string();
        let expected = Some(id).filter(|id| !id.is_empty());
        let found = find(json.as_bytes(), &["/id", "/x/0"]);
        proptest::prop_assert_eq!(found, Ok(vec![expected.clone(), expected]));
    }
}
