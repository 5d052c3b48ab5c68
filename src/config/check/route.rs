//! Checks of a `[[route]]`.

use std::ops::Range;
use std::time::Duration;

use toml::Spanned;

use super::Check;
use crate::config::file::{DedupWord, OrderWord, Required, RouteTable, StatusWord};
use crate::config::profiles::{Profile, Profiles};
use crate::config::{Destination, default_route};
use crate::route::{Order, Pattern, Require, Route, Status};
use crate::schema::Schema;
use crate::select::{Items, LONGEST_LIST, MOST_POINTERS, Selector};

/// A hole of this name says which device it is.
const DEVICE_HOLE: &str = "path:device";

/// The least that a device can be expected to be heard of every so often. Shorter than that is
/// one lost packet.
const LEAST_EXPECTED: Duration = Duration::from_secs(10);

/// For how long the same bytes are the same event: the slowest sender that is known to send until
/// it hears what it waits for comes again after 5 minutes (`ErrorDelay` of a `ZKTeco` terminal).
const USUAL_WINDOW: Duration = Duration::from_secs(10 * 60);

/// The most that the same bytes can be the same event.
const LONGEST_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);

fn has_device(path: &Pattern) -> bool {
    path.hole_names().any(|hole| hole == "device")
}

/// A route whose path is still to be found.
pub(super) fn nowhere(name: String) -> Route {
    Route::new(name, Pattern::parse("/").expect("a slash is a path"))
}

impl<'a> Check<'a> {
    /// A file without a route means one for any path under `/ingest` that leads to all its
    /// destinations.
    pub(super) fn routes(
        &mut self,
        tables: Vec<Spanned<RouteTable>>,
        destinations: &[Destination],
    ) -> Vec<Route> {
        let known = destinations.iter().map(|one| one.name.as_str());
        let known: Vec<&str> = known.filter(|name| !name.is_empty()).collect();
        if tables.is_empty() {
            let mut route = default_route();
            route.to = known.into_iter().map(str::to_owned).collect();
            return vec![route];
        }
        let mut names = Vec::new();
        let mut routes: Vec<(Route, Range<usize>)> = Vec::new();
        for table in tables {
            let span = table.span();
            let mut table = table.into_inner();
            let name = table.name.take().or_else(|| table.profile.clone());
            let (name, whose) = self.name("route", name, span.clone(), &mut names);
            let mut base = nowhere(name);
            let mut usual = None;
            if let Some(profile) = self.profile(&whose, table.profile.as_ref()) {
                base = Route {
                    name: base.name,
                    profile: Some(profile.name.clone()),
                    ..profile.route.clone()
                };
                usual = Some(&profile.paths);
            }
            let paths = self.paths(&whose, &mut table, usual, span, &routes);
            let has_device = paths.iter().any(|path| has_device(path.get_ref()));
            let route = self.route(&whose, base, &table, has_device);
            let route = self.leads_to(&whose, route, table.to.as_slice(), &known);
            for path in paths {
                let at = path.span();
                let route = self.on(&whose, route.clone(), path, &table);
                routes.push((route, at));
            }
        }
        routes.into_iter().map(|(route, _)| route).collect()
    }

    /// The profile that a route names.
    fn profile(&mut self, whose: &str, written: Option<&Spanned<String>>) -> Option<&'a Profile> {
        let written = written?;
        let profiles: &'a Profiles = self.profiles;
        let found = profiles.get(written.get_ref());
        if found.is_none() {
            let text = format!(
                "{whose} profile: there is no \"{}\"; the profiles are: {}",
                written.get_ref(),
                profiles.names().join(", ")
            );
            self.wrong(written.span(), text);
        }
        found
    }

    /// The paths of a route: the one that is written, else all that its profile usually has.
    fn paths(
        &mut self,
        whose: &str,
        table: &mut RouteTable,
        usual: Option<&Vec<Pattern>>,
        span: Range<usize>,
        earlier: &[(Route, Range<usize>)],
    ) -> Vec<Spanned<Pattern>> {
        let mut paths = Vec::new();
        match (table.path.take(), usual) {
            (Some(written), _) => match Pattern::parse(written.get_ref()) {
                Ok(path) => paths.push(Spanned::new(written.span(), path)),
                Err(why) => {
                    let text = format!("{whose} path: \"{}\": {why}", written.get_ref());
                    self.wrong(written.span(), text);
                }
            },
            (None, Some(usual)) => {
                let at = table.profile.as_ref().map_or(span, Spanned::span);
                let at_profile = |path: &Pattern| Spanned::new(at.clone(), path.clone());
                paths.extend(usual.iter().map(at_profile));
            }
            // What is wrong with the profile is said already.
            (None, None) if table.profile.is_some() => {}
            (None, None) => {
                let text = format!("{whose}: path is missing; write one, as in \"/ingest/{{*}}\"");
                self.wrong(span, text);
            }
        }
        for path in &paths {
            let same = |(other, _): &&(Route, _)| other.path.is_same_as(path.get_ref());
            if let Some((_, at)) = earlier.iter().find(same) {
                let first = self.line(at.clone());
                let text = format!(
                    "{whose} path: \"{}\" takes the same paths as the route on line {first}; \
                     one route can lead to several destinations",
                    path.get_ref()
                );
                self.wrong(path.span(), text);
            }
        }
        paths
    }

    /// What a table says, on top of what its profile does. `has_device`: its path says which
    /// device it is.
    pub(super) fn route(
        &mut self,
        whose: &str,
        mut route: Route,
        table: &RouteTable,
        has_device: bool,
    ) -> Route {
        let written = table.event_id.as_ref();
        route.event_id = self.selectors(whose, "event_id", written, route.event_id);
        let written = table.device.as_ref();
        route.device = self.selectors(whose, "device", written, route.device);
        let written = table.event_time.as_ref();
        route.event_time = self.selectors(whose, "event_time", written, route.event_time);
        let written = table.items.as_ref();
        route.items = self.value(whose, "items", written, route.items.clone(), |text| {
            Items::parse(text).map(Some)
        });
        route.require = self.require(whose, &route, table, has_device);
        route.order = match table.order {
            None => route.order,
            Some(OrderWord::Device) => Order::Device,
            Some(OrderWord::Route) => Order::Route,
            Some(OrderWord::None) => Order::None,
        };
        let written = table.priority.as_ref();
        route.priority =
            self.value(
                whose,
                "priority",
                written,
                route.priority,
                |priority| match u8::try_from(*priority) {
                    Ok(priority @ 0..=9) => Ok(priority),
                    _ => Err(format!(
                        "{priority} is not between 0, what matters least, and 9"
                    )),
                },
            );
        route.status = match table.status {
            None => route.status,
            Some(StatusWord::Received) => Status::Received,
            Some(StatusWord::Verdict) => Status::Verdict,
        };
        route.same_content = self.same_content(whose, &route, table);
        route.expect_every = self.expect_every(whose, route.expect_every, table);
        route.schema = self.schema(whose, table.schema.as_ref(), route.schema);
        route.auth = self.auth(whose, route.auth, table);
        self.answers(whose, route, table)
    }

    fn expect_every(
        &mut self,
        whose: &str,
        default: Option<Duration>,
        table: &RouteTable,
    ) -> Option<Duration> {
        let written = table.expect_every.as_ref();
        self.value(
            whose,
            "expect_every",
            written,
            default,
            |figure| match figure.duration()? {
                every if every < LEAST_EXPECTED => Err(format!(
                    "{figure} is less than 10 s, which no sender keeps up with for long"
                )),
                every => Ok(Some(every)),
            },
        )
    }

    fn same_content(&mut self, whose: &str, route: &Route, table: &RouteTable) -> Option<Duration> {
        let same_content = match table.dedup {
            None => route.same_content,
            Some(DedupWord::Off) => None,
            Some(DedupWord::Content) => route.same_content.or(Some(USUAL_WINDOW)),
        };
        let written = table.dedup_window.as_ref();
        if let (Some(written), None) = (written, same_content) {
            let text =
                format!("{whose} dedup_window: it means nothing without dedup = \"content\"");
            self.wrong(written.span(), text);
        }
        self.value(
            whose,
            "dedup_window",
            written,
            same_content,
            |figure| match figure.duration()? {
                window if window.is_zero() || LONGEST_WINDOW < window => Err(format!(
                    "{figure} is not between 1ms and 24h: what is the same for longer may well be \
                     another event"
                )),
                window => Ok(Some(window)),
            },
        )
    }

    fn leads_to(
        &mut self,
        whose: &str,
        mut route: Route,
        to: &[Spanned<String>],
        known: &[&str],
    ) -> Route {
        for name in to {
            let text = name.get_ref();
            if route.to.contains(text) {
                self.wrong(name.span(), format!("{whose} leads to \"{text}\" twice"));
            } else if known.is_empty() {
                let text = format!("{whose} leads to \"{text}\", but there is no [[destination]]");
                self.wrong(name.span(), text);
            } else if !known.contains(&text.as_str()) {
                let known = known.join(", ");
                let text =
                    format!("{whose} leads to \"{text}\", but the destinations are: {known}");
                self.wrong(name.span(), text);
            }
            route.to.push(text.clone());
        }
        route
    }

    /// The route on one of its paths. A hole `{device}` says which device it is, unless the table
    /// says where that is.
    fn on(
        &mut self,
        whose: &str,
        mut route: Route,
        path: Spanned<Pattern>,
        table: &RouteTable,
    ) -> Route {
        let at = path.span();
        route.path = path.into_inner();
        if table.device.is_none() && has_device(&route.path) {
            let hole = Selector::parse(DEVICE_HOLE).expect("a constant, and a test reads it");
            route.device.retain(|known| *known != hole);
            route.device.insert(0, hole);
        }
        self.holes(whose, &route, table);
        self.token_stays_unseen(whose, &route, table, at.clone());
        self.pointers(whose, &route, at);
        route
    }

    fn require(
        &mut self,
        whose: &str,
        route: &Route,
        table: &RouteTable,
        has_device: bool,
    ) -> Require {
        let Some(written) = &table.require else {
            return route.require;
        };
        let no_device = route.device.is_empty() && !(table.device.is_none() && has_device);
        for (required, key, is_nowhere) in [
            (Required::EventId, "event_id", route.event_id.is_empty()),
            (Required::Device, "device", no_device),
        ] {
            if written.get_ref().contains(&required) && is_nowhere {
                let text = format!(
                    "{whose} require: \"{key}\" is required, but {key} does not say \
                     where it is; write {key} = [\"json:/…\"]"
                );
                self.wrong(written.span(), text);
            }
        }
        Require {
            event_id: written.get_ref().contains(&Required::EventId),
            device: written.get_ref().contains(&Required::Device),
        }
    }

    /// One walk through a body must serve them all.
    fn pointers(&mut self, whose: &str, route: &Route, at: Range<usize>) {
        let lists = [&route.event_id, &route.device, &route.event_time];
        let pointers: usize = lists.into_iter().flatten().map(Selector::pointers).sum();
        if MOST_POINTERS < pointers {
            let text =
                format!("{whose}: it follows {pointers} JSON pointers, more than {MOST_POINTERS}");
            self.wrong(at, text);
        }
    }

    fn schema(
        &mut self,
        whose: &str,
        written: Option<&Spanned<String>>,
        default: Option<Schema>,
    ) -> Option<Schema> {
        let Some(written) = written else {
            return default;
        };
        let read = self.path(written.get_ref()).and_then(|path| {
            let read = (self.disk.schema)(&path);
            read.map_err(|why| format!("{}: {why}", path.display()))
        });
        read.unwrap_or_else(|why| {
            self.wrong(written.span(), format!("{whose} schema: {why}"));
            None
        })
    }

    /// What looks at a hole of the path must find it there.
    fn holes(&mut self, whose: &str, route: &Route, table: &RouteTable) {
        let known: Vec<&str> = route.path.hole_names().collect();
        let lists = [
            ("event_id", &route.event_id, &table.event_id),
            ("device", &route.device, &table.device),
            ("event_time", &route.event_time, &table.event_time),
        ];
        for (key, selectors, written) in lists {
            let mut holes = selectors.iter().flat_map(Selector::holes);
            let missing = holes.find(|hole| !known.contains(hole));
            if let (Some(hole), Some(written)) = (missing, written) {
                let text = format!(
                    "{whose} {key}: \"path:{hole}\" looks for a hole {{{hole}}} that the path \
                     \"{}\" does not have",
                    route.path
                );
                self.wrong(written.span(), text);
            }
        }
    }

    fn selectors(
        &mut self,
        whose: &str,
        key: &str,
        written: Option<&Spanned<Vec<Spanned<String>>>>,
        default: Vec<Selector>,
    ) -> Vec<Selector> {
        let Some(written) = written else {
            return default;
        };
        if LONGEST_LIST < written.get_ref().len() {
            let text = format!("{whose} {key}: the list has more than {LONGEST_LIST} selectors");
            self.wrong(written.span(), text);
        }
        let mut selectors = Vec::new();
        for entry in written.get_ref() {
            match Selector::parse(entry.get_ref()) {
                Ok(selector) => selectors.push(selector),
                Err(why) => self.wrong(entry.span(), format!("{whose} {key}: {why}")),
            }
        }
        selectors
    }
}
