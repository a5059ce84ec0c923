//! The page to unsubscribe on: it has its looks under its strict policy, and its button does what it says.

use serde_json::json;
use throttler::subscriber::Standing;

use crate::chromium::Chromium;
use crate::rig::{Rig, name};
use crate::site::Site;

#[tokio::test(flavor = "multi_thread")]
async fn opening_the_page_asks_and_its_button_unsubscribes() {
    let Some(mut browser) = Chromium::start() else { return };
    let mut rig = Rig::fresh().await;
    rig.add(&[rig.hooked("anna")]);
    let site = Site::start(&mut rig).await;
    let url = format!("http://{}{}", site.address, site.path(&rig, "anna"));
    let standing = |rig: &Rig| rig.store().subscriber(&name("anna")).expect("anna").standing;

    let background = "getComputedStyle(document.body).backgroundColor";
    browser.open(&url);
    assert_eq!(browser.ask(background), json!("rgb(255, 255, 255)"));
    browser.set_dark(true);
    assert_eq!(browser.ask(background), json!("rgb(18, 18, 20)"));
    let fits = "document.documentElement.scrollWidth <= innerWidth && document.querySelector('button').offsetHeight >= 48";
    assert_eq!(browser.ask(fits), json!(true));
    assert_eq!(browser.ask("document.querySelector('button').focus(); document.activeElement.tagName"), json!("BUTTON"));
    assert_eq!(standing(&rig), Standing::Active, "looking changes nothing");
    assert_eq!(browser.complaints(), Vec::<String>::new());

    browser.follow("document.querySelector('button')");
    assert_eq!(browser.ask("document.querySelector('h1').textContent"), json!("Unsubscribed"));
    assert_eq!(standing(&rig), Standing::Disabled);
    browser.open(&url);
    assert_eq!(browser.ask("document.querySelector('form')"), json!(null), "there is nothing left to ask");
}
