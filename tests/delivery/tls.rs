//! A certificate authority of the tests' own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().expect("key")).expect("authority"))
    }

    /// Its certificate as a PEM file in `directory`.
    pub fn pem_file(&self, directory: &Path) -> PathBuf {
        let path = directory.join("ca.pem");
        std::fs::write(&path, self.0.pem()).expect("write");
        path
    }

    /// The server's side of TLS, under this name or address.
    pub fn acceptor(&self, name: &str) -> TlsAcceptor {
        let (certificate, key) = self.issue(name);
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).expect("key"))
            .expect("certificate");
        TlsAcceptor::from(Arc::new(config))
    }

    /// A certificate for this name or address, and its key.
    pub fn issue(&self, name: &str) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().expect("key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("name");
        (params.signed_by(&key, &self.0).expect("certificate"), key)
    }
}
