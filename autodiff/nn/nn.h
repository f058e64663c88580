// SPDX-License-Identifier: MIT
// Every layer.
#pragma once
#include "belfry/autodiff/nn/attention.h"
#include "belfry/autodiff/nn/batch_norm.h"
#include "belfry/autodiff/nn/block.h"
#include "belfry/autodiff/nn/conv2d.h"
#include "belfry/autodiff/nn/dropout.h"
#include "belfry/autodiff/nn/embedding.h"
#include "belfry/autodiff/nn/flatten.h"
#include "belfry/autodiff/nn/key_values.h"
#include "belfry/autodiff/nn/layer_norm.h"
#include "belfry/autodiff/nn/linear.h"
#include "belfry/autodiff/nn/pool.h"
