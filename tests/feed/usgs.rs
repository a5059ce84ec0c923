//! A service on loopback that behaves as the USGS's does: summary feeds by period, and the FDSN event service with its limit,
//! its whole-second bounds and its ways to refuse.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use throttler::time::{Span, Timestamp};
use tokio::net::TcpListener;
use url::Url;

/// The header of the service's CSV.
pub const HEADER: &str = "time,latitude,longitude,depth,mag,magType,nst,gap,dmin,rms,net,id,updated,place,type,horizontalError,\
                          depthError,magError,magNst,status,locationSource,magSource";

/// An event as the service knows it.
#[derive(Clone, Debug)]
pub struct Listed {
    pub id: String,
    pub at: Timestamp,
    pub magnitude: f64,
    pub kind: String,
    pub updated_at: Timestamp,
}

impl Listed {
    pub fn new(id: &str, at: Timestamp, magnitude: f64) -> Listed {
        Listed { id: id.into(), at, magnitude, kind: "earthquake".into(), updated_at: at.plus(Span::from_seconds(900)) }
    }

    /// Its row in the CSV, without the line's end.
    pub fn row(&self) -> String {
        let Listed { id, at, magnitude, kind, updated_at } = self;
        format!(
            "{at},52.5,160.3,20,{magnitude},mww,,,,,us,{id},{updated_at},\"12 km SE of \"\"{id}\"\", Russia\",{kind},,,,,reviewed,us,us"
        )
    }

    fn feature(&self) -> Value {
        json!({
            "type": "Feature", "id": self.id,
            "properties": {
                "mag": self.magnitude, "place": format!("near {}", self.id), "time": self.at.millis(),
                "updated": self.updated_at.millis(), "ids": format!(",{},", self.id), "status": "reviewed", "type": self.kind,
                "tsunami": 0, "alert": null, "magType": "mww",
            },
            "geometry": { "type": "Point", "coordinates": [160.3, 52.5, 20.0] },
        })
    }
}

/// What happens before a request is answered: an answer of its own, or none.
pub type Fault = Box<dyn FnMut(&mut Service, usize, &Url) -> Option<Response> + Send>;

#[derive(Default)]
pub struct Service {
    pub events: Vec<Listed>,
    /// Ids of events that were deleted.
    pub deleted: Vec<String>,
    /// The service's clock; feeds reach back from it.
    pub now: Option<Timestamp>,
    pub limit: usize,
    /// The path and query of each request.
    pub asked: Vec<String>,
    pub fault: Option<Fault>,
}

/// The running service; it ends with the test's runtime.
pub struct Usgs {
    address: SocketAddr,
    service: Arc<Mutex<Service>>,
}

impl Usgs {
    pub async fn start(service: Service) -> Usgs {
        let service = Arc::new(Mutex::new(service));
        let shared = Arc::clone(&service);
        let router = Router::new().fallback(move |request: Request| {
            let url = Url::parse(&format!("http://127.0.0.1{}", request.uri())).expect("a URL");
            let mut service = shared.lock().unwrap_or_else(PoisonError::into_inner);
            std::future::ready(answer(&mut service, &url))
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move { axum::serve(listener, router).await });
        Usgs { address, service }
    }

    pub fn service(&self) -> MutexGuard<'_, Service> {
        self.service.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The base of the FDSN service.
    pub fn fdsn(&self) -> String {
        format!("http://{}/fdsnws/event/1/", self.address)
    }

    /// The address of a summary feed like `4.5_day`.
    pub fn feed(&self, name: &str) -> String {
        format!("http://{}/feed/v1.0/summary/{name}.geojson", self.address)
    }
}

fn answer(service: &mut Service, url: &Url) -> Response {
    let number = service.asked.len();
    service.asked.push(url.as_str().replacen("http://127.0.0.1", "", 1));
    if let Some(mut fault) = service.fault.take() {
        let refused = fault(service, number, url);
        service.fault.get_or_insert(fault);
        if let Some(refused) = refused {
            return refused;
        }
    }
    let last = url.path().rsplit('/').next().unwrap_or_default();
    match last {
        "count" => count(service, url),
        "query" => query(service, url),
        feed if feed.ends_with(".geojson") && url.query().is_some() => StatusCode::FORBIDDEN.into_response(),
        feed if feed.ends_with(".geojson") => summary(service, feed),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// An error as the service words it, in plain text.
pub fn refusal(status: u16, message: &str) -> Response {
    let body = format!("Error {status}: Bad Request\n\n{message}\n\nUsage details are available from …\n");
    (StatusCode::from_u16(status).expect("a status"), [(header::CONTENT_TYPE, "text/plain")], body).into_response()
}

fn parameters(url: &Url) -> BTreeMap<String, String> {
    url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

/// The events that match, newest first unless asked otherwise; the bounds are inclusive at whole seconds.
fn matching(service: &Service, asked: &BTreeMap<String, String>) -> Result<Vec<Listed>, String> {
    let known =
        ["starttime", "endtime", "minmagnitude", "eventtype", "format", "orderby", "limit", "offset", "updatedafter", "eventid"];
    if let Some(unknown) = asked.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("Unknown parameter \"{unknown}\"."));
    }
    let instant = |name: &str| asked.get(name).map(|text| format!("{text}Z").parse::<Timestamp>().expect(text));
    let month = service.now.map(|now| now.minus(Span::from_seconds(30 * 86_400)));
    let (start, end) = (instant("starttime").or(month), instant("endtime"));
    let least = asked.get("minmagnitude").map(|text| text.parse::<f64>().expect(text));
    let kinds = asked.get("eventtype").map(|text| text.split(',').map(str::to_owned).collect::<Vec<_>>());
    let fits = |event: &&Listed| {
        start.is_none_or(|start| event.at >= start)
            && end.is_none_or(|end| event.at <= end)
            && least.is_none_or(|least| event.magnitude >= least)
            && kinds.as_ref().is_none_or(|kinds| kinds.contains(&event.kind))
            && instant("updatedafter").is_none_or(|after| event.updated_at > after)
    };
    let mut found: Vec<Listed> = service.events.iter().filter(fits).cloned().collect();
    found.sort_by_key(|event| event.at);
    if asked.get("orderby").is_none_or(|order| order != "time-asc") {
        found.reverse();
    }
    if let Some(limit) = asked.get("limit") {
        // Without a limit the offset is ignored.
        let offset = asked.get("offset").map_or(1, |text| text.parse::<usize>().expect(text));
        found = found.into_iter().skip(offset - 1).take(limit.parse().expect(limit)).collect();
    }
    Ok(found)
}

fn count(service: &Service, url: &Url) -> Response {
    match matching(service, &parameters(url)) {
        Ok(found) => json!({ "count": found.len(), "maxAllowed": service.limit }).to_string().into_response(),
        Err(message) => refusal(400, &message),
    }
}

fn query(service: &Service, url: &Url) -> Response {
    let asked = parameters(url);
    if let Some(id) = asked.get("eventid") {
        return one(service, id);
    }
    let found = match matching(service, &asked) {
        Ok(found) => found,
        Err(message) => return refusal(400, &message),
    };
    if found.len() > service.limit {
        let (found, limit) = (found.len(), service.limit);
        let message =
            format!("{found} matching events exceeds search limit of {limit}. Modify the search to match fewer events.");
        return refusal(400, &message);
    }
    if asked.get("format").is_some_and(|format| format == "csv") {
        let rows = found.iter().map(|event| event.row() + "\n");
        let body = std::iter::once(format!("{HEADER}\n")).chain(rows).collect::<String>();
        return ([(header::CONTENT_TYPE, "text/csv")], body).into_response();
    }
    document(service, &found)
}

fn one(service: &Service, id: &str) -> Response {
    if service.deleted.iter().any(|deleted| deleted == id) {
        return refusal(409, "The requested event has been deleted.");
    }
    match service.events.iter().find(|event| event.id == id) {
        Some(event) => event.feature().to_string().into_response(),
        None => refusal(404, "Not Found"),
    }
}

fn summary(service: &Service, name: &str) -> Response {
    let (least, period) = name.trim_end_matches(".geojson").split_once('_').expect("4.5_day");
    let hours = BTreeMap::from([("hour", 1), ("day", 24), ("week", 7 * 24), ("month", 30 * 24)])[period];
    let (least, now) = (least.parse::<f64>().expect(least) - 0.05, service.now.expect("a clock"));
    let from = now.minus(Span::from_seconds(hours * 3_600));
    let mut found: Vec<Listed> =
        service.events.iter().filter(|event| event.at >= from && event.at <= now && event.magnitude >= least).cloned().collect();
    found.sort_by_key(|event| std::cmp::Reverse(event.at));
    document(service, &found)
}

fn document(service: &Service, found: &[Listed]) -> Response {
    let generated = service.now.map(Timestamp::millis);
    let features: Vec<_> = found.iter().map(Listed::feature).collect();
    json!({
        "type": "FeatureCollection",
        "metadata": { "generated": generated, "status": 200, "count": found.len() },
        "features": features,
    })
    .to_string()
    .into_response()
}
