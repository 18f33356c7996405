#!/usr/bin/env bash
# Takes the place of scripts/build.sh: the tests run on what is built.
