// SPDX-License-Identifier: Apache-2.0
//
// Credentials that the machine hands out, from services that the tests play on loopback. No test
// asks a real one: every one names its endpoint.
#include "env/s3/service_credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "env/memory_file_system.h"
#include "loopback_server.h"

namespace cairn::env {
namespace {

using Server = cairn::testing::LoopbackServer;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kKeys[] =
    R"({"Code":"Success","AccessKeyId":"AKID","SecretAccessKey":"hush","Token":"session",)"
    R"("Expiration":"2026-12-01T00:00:00Z"})";

class ServiceCredentials : public ::testing::Test {
 protected:
  Result<S3Credentials> Find() {
    const EnvironmentLookup environment = [this](const std::string& name) {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::nullopt : std::optional(found->second);
    };
    return FindS3Credentials(&files_, environment, http_.get());
  }

  /// An instance with role "writer".
  static Server::Answer Instance(const Server::Request& request) {
    if (request.line == "PUT /latest/api/token") {
      if (!request.headers.contains("x-aws-ec2-metadata-token-ttl-seconds")) return {400, ""};
      return {200, "a-session"};
    }
    const auto session = request.headers.find("x-aws-ec2-metadata-token");
    if (session == request.headers.end() || session->second != "a-session") return {401, ""};
    if (request.line == "GET /latest/meta-data/iam/security-credentials/") return {200, "writer\n"};
    if (request.line == "GET /latest/meta-data/iam/security-credentials/writer") {
      return {200, kKeys};
    }
    return {404, ""};
  }

  void UseInstance(const Server& server) {
    variables_["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = server.endpoint() + "/";
  }

  MemoryFileSystem files_;
  std::map<std::string, std::string> variables_;
  std::unique_ptr<HttpClient> http_ = CurlHttpClient();
};

TEST_F(ServiceCredentials, AnInstanceHandsOutThoseOfItsRoleForASessionToken) {
  Server server(&Instance);
  UseInstance(server);
  const Result<S3Credentials> found = Find();
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->access_key, "AKID");
  EXPECT_EQ(found->secret_key, "hush");
  EXPECT_EQ(found->session_token, "session");
  EXPECT_EQ(found->source, "the instance metadata at " + server.endpoint() + ", role writer");
}

TEST_F(ServiceCredentials, NobodyIsAskedWhereEnvironmentOrFileHaveThem) {
  Server server(&Instance);
  UseInstance(server);
  variables_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = server.endpoint() + "/keys";
  variables_["AWS_ACCESS_KEY_ID"] = "env";
  variables_["AWS_SECRET_ACCESS_KEY"] = "secret";
  EXPECT_EQ(Find()->access_key, "env");
  variables_.erase("AWS_ACCESS_KEY_ID");
  variables_.erase("AWS_SECRET_ACCESS_KEY");
  variables_["AWS_SHARED_CREDENTIALS_FILE"] = "/credentials";
  auto file = files_.CreateFile("/credentials");
  ASSERT_TRUE((*file)->Append("[default]\naws_access_key_id=file\naws_secret_access_key=s\n").ok());
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_EQ(Find()->access_key, "file");
  EXPECT_TRUE(server.Stop().empty());
}

TEST_F(ServiceCredentials, AnInstanceIsNotAskedWhenThatIsDisabled) {
  Server server(&Instance);
  UseInstance(server);
  variables_["AWS_EC2_METADATA_DISABLED"] = "true";
  EXPECT_THAT(Find().status().message(), HasSubstr("no S3 credentials"));
  EXPECT_TRUE(server.Stop().empty());
}

TEST_F(ServiceCredentials, AMachineWithoutTheServiceHasNone) {
  std::string endpoint;
  {
    Server server(&Instance);
    endpoint = server.endpoint();
  }
  variables_["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = endpoint;  // nobody listens there any more
  const Status none = Find().status();
  EXPECT_EQ(none.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(none.message(), HasSubstr("this machine hands out none"));
}

TEST_F(ServiceCredentials, AnInstanceWithoutARoleHasNone) {
  Server server([](const Server::Request& request) -> Server::Answer {
    if (request.line.starts_with("PUT")) return {200, "a-session"};
    return {404, ""};
  });
  UseInstance(server);
  EXPECT_THAT(Find().status().message(), HasSubstr("this machine hands out none"));
}

TEST_F(ServiceCredentials, AServiceThatStumblesIsAskedOnceMore) {
  int failures = 1;
  Server server([&](const Server::Request& request) -> Server::Answer {
    if (request.line.ends_with("/writer") && failures-- > 0) return {503, ""};
    return Instance(request);
  });
  UseInstance(server);
  EXPECT_TRUE(Find().ok());
}

TEST_F(ServiceCredentials, WhatIsNotAnAnswerSaysSoAndNamesNoSecret) {
  for (const char* body : {"", "[]", "{\"AccessKeyId\":\"AKID\"}", "<html>",
                           "{\"SecretAccessKey\":\"hush\",\"AccessKeyId\":7}"}) {
    Server server([&](const Server::Request& request) -> Server::Answer {
      return request.line.ends_with("/writer") ? Server::Answer{200, body} : Instance(request);
    });
    UseInstance(server);
    const Status status = Find().status();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << body;
    EXPECT_THAT(status.message(), HasSubstr("without AccessKeyId and SecretAccessKey"));
    EXPECT_THAT(status.message(), Not(HasSubstr("hush")));
  }
}

TEST_F(ServiceCredentials, AServiceThatGivesNoSessionIsNone) {
  Server server([](const Server::Request&) -> Server::Answer { return {403, ""}; });
  UseInstance(server);
  EXPECT_THAT(Find().status().message(), HasSubstr("this machine hands out none"));
  EXPECT_EQ(server.Stop().size(), 1u);
}

TEST_F(ServiceCredentials, AContainersServiceIsAskedWithItsTokenAndBeforeTheInstance) {
  Server instance(&Instance);
  UseInstance(instance);
  Server server([](const Server::Request& request) -> Server::Answer {
    if (request.line != "GET /role?x=1") return {404, ""};
    const auto token = request.headers.find("authorization");
    if (token == request.headers.end() || token->second != "Bearer t") return {401, ""};
    return {200, kKeys};
  });
  variables_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = server.endpoint() + "/role?x=1";
  EXPECT_EQ(Find().status().code(), StatusCode::kInvalidArgument);  // 401
  variables_["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "Bearer t";
  EXPECT_EQ(Find()->access_key, "AKID");
  variables_["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "Bearer old";
  variables_["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = "/token";  // comes first: it is renewed
  auto file = files_.CreateFile("/token");
  ASSERT_TRUE((*file)->Append("Bearer t\n").ok() && (*file)->Close().ok());
  const Result<S3Credentials> found = Find();
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->source, "the container credentials at " + server.endpoint() + "/role?x=1");
  EXPECT_TRUE(instance.Stop().empty());
}

TEST_F(ServiceCredentials, KeysAreNotAskedOfAnotherMachineInTheClear) {
  for (const char* url : {"http://example.com/keys", "http://10.0.0.7/keys", "ftp://127.0.0.1/",
                          "http://127.0.0.1@example.com/keys", "http://localhost.example.com/",
                          "http://127.0.0.1.example.com/"}) {
    variables_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = url;
    const Status refused = Find().status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << url;
    EXPECT_THAT(refused.message(), HasSubstr("https://, or http:// of this machine")) << url;
  }
}

}  // namespace
}  // namespace cairn::env
