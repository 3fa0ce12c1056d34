// A certificate that its own key has signed, made anew for a test.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

namespace strata::test {

// Files certificate and key, in PEM, of the name "localhost"; they go with it.
class SelfSigned {
 public:
  SelfSigned() {
    std::string pattern = (std::filesystem::temp_directory_path() / "strata-tls-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no folder");
    folder_ = pattern;
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"),
                                                                  EVP_PKEY_free);
    const std::unique_ptr<X509, decltype(&X509_free)> made(X509_new(), X509_free);
    if (!key || !made) throw std::runtime_error("no key");
    X509_set_version(made.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(made.get()), 3600);
    X509_set_pubkey(made.get(), key.get());
    X509_NAME* name = X509_get_subject_name(made.get());
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
    X509_set_issuer_name(made.get(), name);
    X509_EXTENSION* names =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
    X509_add_ext(made.get(), names, -1);
    X509_EXTENSION_free(names);
    if (X509_sign(made.get(), key.get(), EVP_sha256()) == 0) throw std::runtime_error("not signed");
    write(certificate(), [&](FILE* to) { return PEM_write_X509(to, made.get()); });
    write(this->key(), [&](FILE* to) {
      return PEM_write_PrivateKey(to, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
  }
  SelfSigned(const SelfSigned&) = delete;
  SelfSigned& operator=(const SelfSigned&) = delete;
  ~SelfSigned() { std::filesystem::remove_all(folder_); }

  std::string certificate() const { return folder_ + "/certificate.pem"; }
  std::string key() const { return folder_ + "/key.pem"; }

 private:
  template <class Write>
  static void write(const std::string& path, Write&& pem) {
    FILE* file = std::fopen(path.c_str(), "w");
    if (file == nullptr) throw std::runtime_error("cannot write " + path);
    const bool written = pem(file) == 1;
    if (std::fclose(file) != 0 || !written) throw std::runtime_error("cannot write " + path);
  }
  std::string folder_;
};

}  // namespace strata::test
