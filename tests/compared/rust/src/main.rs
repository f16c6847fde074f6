//! The programs whose cost is measured, on kube-rs: a controller of Sites or of Pods, each of whose runs is
//! given its object from a cache, and writes one byte.

use std::{
    collections::BTreeMap, env, error::Error, fmt::Debug, fs::File, io, io::Write, sync::Arc, time::Duration,
};

use futures::StreamExt;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{
    Api, Client, CustomResource, Resource,
    runtime::{Controller, controller::Action, watcher},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Site",
    namespaced,
    status = "SiteStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
struct SiteSpec {
    image: String,
    replicas: i32,
    #[serde(default)]
    settings: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct SiteStatus {
    ready: i32,
    observed_generation: i64,
    #[serde(default)]
    conditions: Vec<Condition>,
}

async fn keep<K>(_object: Arc<K>, runs: Arc<File>) -> io::Result<Action> {
    (&*runs).write_all(b".")?;
    Ok(Action::await_change())
}

fn retry<K>(_object: Arc<K>, _error: &io::Error, _runs: Arc<File>) -> Action {
    Action::requeue(Duration::from_secs(1))
}

async fn follow<K>(client: Client, runs: Arc<File>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    Controller::new(Api::<K>::all(client), watcher::Config::default())
        .run(keep, retry, runs)
        .for_each(|_| async {})
        .await;
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runs = Arc::new(File::options().write(true).open(env::var("RUNS")?)?);
    let client = Client::try_default().await?;
    match env::var("KIND")?.as_str() {
        "pods" => follow::<Pod>(client, runs).await,
        _ => follow::<Site>(client, runs).await,
    }
    Ok(())
}
