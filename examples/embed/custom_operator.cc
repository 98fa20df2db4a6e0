// SPDX-License-Identifier: Apache-2.0
//
// A custom operator in a SQL job: this program is the cairn command with one operator more.
// "streaks" tells, for each user, when a purchase is higher than the one before:
//
//   custom_operator run examples/embed/streaks.sql
#include <memory>

#include "cairn/operator.h"

/// Columns of the input (user_id, price, …) and of the output (user_id, streak, price).
enum InputColumn : size_t { kUser, kPrice };
enum OutputColumn : size_t { kOutUser, kOutStreak, kOutPrice };

struct Streak {
  int64_t last_price;
  int64_t length;
};

class Streaks final : public cairn::Operator {
 public:
  cairn::Status Open(cairn::RuntimeContext* context) override {
    CAIRN_ASSIGN_OR_RETURN(streaks_, (context->keyed_state<cairn::Bytes, Streak>("streaks")));
    return {};
  }

  cairn::Status Process(const cairn::InputRows& in, cairn::OutputRows* out) override {
    for (size_t row = 0; row < in.rows(); ++row) {
      if (in.IsNull(row, kUser) || in.IsNull(row, kPrice)) continue;
      const int64_t price = in.Integer(row, kPrice);
      int64_t length = 0;
      CAIRN_RETURN_IF_ERROR(streaks_->Update(in.Key(row), [&](Streak& streak, bool first) noexcept {
        streak.length = !first && price > streak.last_price ? streak.length + 1 : 1;
        streak.last_price = price;
        length = streak.length;
      }));
      if (length < 3) continue;
      out->SetInteger(kOutUser, in.Integer(row, kUser));
      out->SetInteger(kOutStreak, length);
      out->SetInteger(kOutPrice, price);
      CAIRN_RETURN_IF_ERROR(out->EndRow());
    }
    return {};
  }

 private:
  cairn::KeyedState<cairn::Bytes, Streak>* streaks_ = nullptr;
};

int main(int argc, char** argv) {
  const cairn::Status registered =
      cairn::RegisterOperator("streaks", [] { return std::make_unique<Streaks>(); });
  return registered.ok() ? cairn::RunCommand(argc, argv) : 2;
}
