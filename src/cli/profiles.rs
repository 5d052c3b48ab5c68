//! `gatepost profiles`: the known kinds of senders.

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use serde::Serialize;

use super::Error;
use super::text::{Table, json, safe};
use crate::audit::Pause;
use crate::config::profiles::Profile;
use crate::config::{DEFAULT_PATH, Profiles};

/// List the kinds of senders that a route can name as its profile, or explain one.
///
/// Those in the folder `profiles` beside the configuration file are among them. Does not need the
/// daemon. With --json: one object a line.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The profile to explain.
    name: Option<String>,
    /// The configuration file. Default: /etc/gatepost/gatepost.toml, which need not be there.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON for programs instead of text for people.
    #[arg(long)]
    json: bool,
}

/// A profile, for programs.
#[derive(Serialize)]
struct View<'a> {
    name: &'a str,
    title: &'a str,
    file: Option<String>,
    about: &'a str,
    paths: Vec<String>,
    event_id: Vec<String>,
    device: Vec<String>,
    event_time: Vec<String>,
    items: Option<String>,
    signature: Option<String>,
    answer: Option<String>,
    rejected: Option<String>,
    cases: Vec<String>,
    options: Vec<String>,
    same_content: Option<String>,
    retries: String,
    retries_note: &'a str,
}

/// Prints one line for each, or a page about one.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let default = PathBuf::from(DEFAULT_PATH);
    let profiles = Profiles::beside(args.config.as_ref().unwrap_or(&default))?;
    match &args.name {
        Some(name) => {
            let profile = profiles.get(name).ok_or_else(|| {
                let names = profiles.names().join(", ");
                Error::NotDone(format!(
                    "there is no profile \"{name}\"; there are: {names}"
                ))
            })?;
            if args.json {
                return Ok(json(&view(profile), out)?);
            }
            Ok(out.write_all(explain(profile).as_bytes())?)
        }
        None if args.json => {
            let mut views = profiles.iter().map(view);
            Ok(views.try_for_each(|view| json(&view, out))?)
        }
        None => {
            let mut table = Table::new(["PROFILE", "SENDER"], &[]);
            for profile in profiles.iter() {
                let own = profile.file.as_ref().map_or("", |_| " (yours)");
                table.add([profile.name.clone(), format!("{}{own}", profile.title)]);
            }
            Ok(table.print(true, out)?)
        }
    }
}

fn view(profile: &Profile) -> View<'_> {
    let route = &profile.route;
    let answers = &route.answers;
    let wording = |wording: &Option<_>| wording.as_ref().map(ToString::to_string);
    let case = |case: &crate::profile::Case| match &case.answer {
        Some(answer) => format!("{case} -> {answer}"),
        None => case.to_string(),
    };
    let option = |(name, value): (&String, &String)| format!("{name}={value}");
    View {
        name: &profile.name,
        title: &profile.title,
        file: profile.file.as_ref().map(|file| file.display().to_string()),
        about: &profile.about,
        paths: texts(&profile.paths),
        event_id: texts(&route.event_id),
        device: texts(&route.device),
        event_time: texts(&route.event_time),
        items: route.items.as_ref().map(ToString::to_string),
        signature: route.auth.signature.as_ref().map(ToString::to_string),
        answer: wording(&answers.accepted),
        rejected: wording(&answers.rejected),
        cases: answers.cases.iter().map(case).collect(),
        options: answers.options.iter().map(option).collect(),
        same_content: route.same_content.map(|within| {
            let within = Pause(within);
            format!("the same bytes within {within} are a duplicate")
        }),
        retries: route.retries.to_string(),
        retries_note: &profile.retries_note,
    }
}

fn texts(list: &[impl ToString]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

/// A page for people, with a route to paste at its end.
pub(super) fn explain(profile: &Profile) -> String {
    let view = view(profile);
    let mut page = format!(
        "{}: {}\n\n{}\n\n",
        view.name,
        view.title,
        wrapped(view.about)
    );
    let retries = match view.retries_note {
        "" => view.retries.clone(),
        note => format!("{}: {note}", view.retries),
    };
    let signature = view.signature.as_ref().map(|signature| {
        format!("{signature}; checked with signature = {{ file = \"…\" }} on the route")
    });
    let rows = [
        ("file", view.file.clone().into_iter().collect()),
        ("paths", view.paths),
        ("event id", view.event_id),
        ("device", view.device),
        ("event time", view.event_time),
        ("items", view.items.into_iter().collect()),
        ("signature", signature.into_iter().collect()),
        ("answer", view.answer.into_iter().collect()),
        ("rejected", view.rejected.into_iter().collect()),
        ("cases", view.cases),
        ("options", view.options),
        ("dedup", view.same_content.into_iter().collect()),
        ("retries", vec![retries]),
    ];
    for (label, values) in rows {
        for (index, value) in values.iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            // Writing to memory cannot fail.
            _ = writeln!(page, "{label:<10}  {}", safe(value));
        }
    }
    _ = write!(
        page,
        "\na route with it:\n\n[[route]]\nprofile = \"{}\"\nto = [\"cloud\"]\n",
        profile.name
    );
    page
}

/// In lines of at most 80 columns.
fn wrapped(text: &str) -> String {
    let mut wrapped = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if 0 < column && 80 < column + 1 + length {
            wrapped.push('\n');
            column = 0;
        } else if 0 < column {
            wrapped.push(' ');
            column += 1;
        }
        wrapped.push_str(word);
        column += length;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_about_a_profile_ends_with_a_route_to_paste() {
        let profiles = Profiles::embedded().unwrap_or_else(|why| unreachable!("{why}"));
        for profile in profiles.iter() {
            let page = explain(profile);
            let (_, route) = page.split_once("a route with it:\n").expect("it has one");
            let text = format!("[[destination]]\nname = \"cloud\"\nurl = \"http://c\"\n{route}");
            let config = crate::config::Config::parse(&text, "gatepost.toml".as_ref());
            config.unwrap_or_else(|why| unreachable!("{why}"));
        }
        let page = explain(profiles.get("zkteco").expect("there is one"));
        let lines = [
            "zkteco: ZKTeco or eSSL terminal, ADMS (push)\n",
            "\npaths       /iclock/{*}\n",
            "\ndevice      query:SN\n",
            "\nanswer      200 text/plain: computed (zkteco-upload)\n",
            "\n            poll: GET, path:* = \"*ping*\" -> 200 text/plain: OK\n",
            "\n            TransFlag=TransData AttLog\\u{9}OpLog\n",
            "\ndedup       the same bytes within 10.0 min are a duplicate\n",
            "\nretries     until-answered: every ErrorDelay seconds, no limit stated\n",
        ];
        for line in lines {
            assert!(page.contains(line), "{line} is not in\n{page}");
        }
    }
}
