//! Checks of a `[[route]]`.

use std::ops::Range;

use toml::Spanned;

use super::Check;
use crate::config::file::{OrderWord, Required, RouteTable, StatusWord};
use crate::config::{Destination, default_route};
use crate::route::{Order, Pattern, Require, Route, Status};
use crate::schema::Schema;
use crate::select::{Items, LONGEST_LIST, MOST_POINTERS, Selector};

impl Check<'_> {
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
            let name = table.name.take();
            let (name, whose) = self.name("route", name, span.clone(), &mut names);
            let Some(path) = self.pattern(&whose, table.path.take(), span, &routes) else {
                let nowhere = Pattern::parse("/").expect("a slash is a path");
                self.route(&whose, Route::new(name, nowhere), table, &known);
                continue;
            };
            let (path, at) = (path.get_ref().clone(), path.span());
            let route = self.route(&whose, Route::new(name, path), table, &known);
            self.pointers(&whose, &route, at.clone());
            routes.push((route, at));
        }
        routes.into_iter().map(|(route, _)| route).collect()
    }

    fn pattern(
        &mut self,
        whose: &str,
        written: Option<Spanned<String>>,
        span: Range<usize>,
        earlier: &[(Route, Range<usize>)],
    ) -> Option<Spanned<Pattern>> {
        let Some(written) = written else {
            let text = format!("{whose}: path is missing; write one, as in \"/ingest/{{*}}\"");
            self.wrong(span, text);
            return None;
        };
        let text = written.get_ref();
        let pattern = match Pattern::parse(text) {
            Ok(pattern) => pattern,
            Err(why) => {
                self.wrong(written.span(), format!("{whose} path: \"{text}\": {why}"));
                return None;
            }
        };
        let same = |(other, _): &&(Route, _)| other.path.is_same_as(&pattern);
        if let Some((_, at)) = earlier.iter().find(same) {
            let first = self.line(at.clone());
            let text = format!(
                "{whose} path: \"{text}\" takes the same paths as the route on line {first}; \
                 one route can lead to several destinations"
            );
            self.wrong(written.span(), text);
        }
        Some(Spanned::new(written.span(), pattern))
    }

    fn route(&mut self, whose: &str, mut route: Route, table: RouteTable, known: &[&str]) -> Route {
        route.event_id = self.selectors(whose, "event_id", table.event_id.as_ref());
        route.device = self.selectors(whose, "device", table.device.as_ref());
        route.event_time = self.selectors(whose, "event_time", table.event_time.as_ref());
        route.items = self.value(whose, "items", table.items.as_ref(), None, |text| {
            Items::parse(text).map(Some)
        });
        self.holes(whose, &route, &table);
        route.require = self.require(whose, &table);
        route.order = match table.order {
            OrderWord::Device => Order::Device,
            OrderWord::Route => Order::Route,
            OrderWord::None => Order::None,
        };
        route.priority = self.value(
            whose,
            "priority",
            table.priority.as_ref(),
            route.priority,
            |priority| match u8::try_from(*priority) {
                Ok(priority @ 0..=9) => Ok(priority),
                _ => Err(format!(
                    "{priority} is not between 0, what matters least, and 9"
                )),
            },
        );
        route.status = match table.status {
            StatusWord::Received => Status::Received,
            StatusWord::Verdict => Status::Verdict,
        };
        route.schema = self.schema(whose, table.schema.as_ref());
        for name in table.to {
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
            route.to.push(name.into_inner());
        }
        route
    }

    fn require(&mut self, whose: &str, table: &RouteTable) -> Require {
        let Some(written) = &table.require else {
            return Require::default();
        };
        for (required, key, written_list) in [
            (Required::EventId, "event_id", table.event_id.as_ref()),
            (Required::Device, "device", table.device.as_ref()),
        ] {
            let is_empty = written_list.is_none_or(|list| list.get_ref().is_empty());
            if written.get_ref().contains(&required) && is_empty {
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

    fn schema(&mut self, whose: &str, written: Option<&Spanned<String>>) -> Option<Schema> {
        let written = written?;
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
    ) -> Vec<Selector> {
        let Some(written) = written else {
            return Vec::new();
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
