// SPDX-License-Identifier: Apache-2.0
//
// Credentials that the machine a process runs on hands out: to a container, at the address that its
// environment names; to an instance, from its metadata service (version 2, with a session token).
//
// Invariant: a secret is in no message.
//
// Threads: free functions.
#pragma once

#include <optional>

#include "cairn/status.h"
#include "env/file_system.h"
#include "env/http_client.h"
#include "env/s3/settings.h"

namespace cairn::env {

/// Ask for credentials: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or …_FULL_URI (with
/// AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE or …_TOKEN) when one is set, else the instance's metadata
/// service (AWS_EC2_METADATA_SERVICE_ENDPOINT) unless AWS_EC2_METADATA_DISABLED is true.
///
/// Shape:    nothing where no service answers, or it gives no session or has no role.
/// Blocks:   1 s a request, twice at most; an address where nobody listens answers at once.
/// Errors:   kInvalidArgument: the address is not one that credentials may come from, or the
/// service
///           refuses · kUnavailable: a container's service does not answer, or with something else.
Result<std::optional<S3Credentials>> FindServiceCredentials(FileSystem* files,
                                                            const EnvironmentLookup& environment,
                                                            HttpClient* http);

}  // namespace cairn::env
