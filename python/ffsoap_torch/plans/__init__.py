"""Plans of ffsoap in PyTorch.  SPDX-License-Identifier: Apache-2.0"""
