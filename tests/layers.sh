#!/bin/sh
# The house has floors: includes go down only.
exec sh "${srcdir:-.}/scripts/check-layers" "${srcdir:-.}"
