// Certificates for tests of TLS, made when they run.
#pragma once

#include <string>

#include "absl/time/time.h"

namespace recollect {

struct TestCertificate {
  std::string certificate, key;  // PEM
};

// For localhost and 127.0.0.1, signed by itself, so that it is also what clients are to trust.
// Valid from `begin` to `end`, as seen from now; the key's password is `password`, unless empty.
TestCertificate MakeCertificate(absl::Duration begin = -absl::Hours(1),
                                absl::Duration end = absl::Hours(24 * 365),
                                const std::string& password = "");

}  // namespace recollect
