//! Mutual TLS: a certificate for this process, and a check that the client has the host's. See spec/protocol.md,
//! section 3.

use std::sync::Arc;
use tokio_rustls::rustls;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, UnixTime, pem::PemObject};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme, version};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A configuration that accepts only the client with the host's certificate, and a new self-signed P-256 certificate as
/// DER.
pub fn server(host: &[u8]) -> Result<(Arc<ServerConfig>, Vec<u8>), Failure> {
    let host = CertificateDer::from_pem_slice(host).map_err(|e| format!("PLUGIN_CLIENT_CERT: {e}"))?;
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    let own = rcgen::CertificateParams::new(["localhost".to_string()])?.self_signed(&key)?;
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(OnlyHost { host, provider: provider.clone() });
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS12, &version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![own.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok((Arc::new(config), own.der().to_vec()))
}

/// Accepts exactly the certificate that the host passed, compared byte by byte. Names and dates are ignored.
#[derive(Debug)]
struct OnlyHost {
    host: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for OnlyHost {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        match shown.as_ref() == self.host.as_ref() {
            true => Ok(ClientCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
