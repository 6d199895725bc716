"""Files that other programs execute or that steer them: the default of `[policy] protected`.

A pattern without a slash matches a file of that name in any folder, and `**/` matches any folder,
so every pattern applies at any depth of the repository. Matching ignores case.
"""

_CI = (
    "**/.github/**", "**/.gitea/**", "**/.forgejo/**", "**/.gitlab/**", ".gitlab-ci*.y*ml",
    "**/.circleci/**", "**/.buildkite/**", "**/.woodpecker/**", ".woodpecker*.y*ml", ".drone.*",
    "Jenkinsfile*", "azure-pipelines*.y*ml", "**/.azure-pipelines/**", "**/.azuredevops/**",
    "bitbucket-pipelines.y*ml", "appveyor*.y*ml", ".appveyor*.y*ml", ".travis.y*ml", "**/.ci/**",
    "**/.tekton/**", "**/.semaphore/**", "**/.teamcity/**", ".cirrus.*", "cloudbuild*.y*ml",
    "cloudbuild*.json", "buildspec*.y*ml", ".prow.y*ml", "**/.prow/**", ".build.y*ml",
    "**/.builds/**", "wercker.y*ml", "codefresh.y*ml", "**/.codefresh/**", "bitrise.y*ml",
    "codemagic.y*ml", "screwdriver.y*ml", "shippable.y*ml", ".taskcluster.y*ml", ".zuul.y*ml",
    "zuul.y*ml", "**/.zuul.d/**", "**/zuul.d/**", "**/.agola/**", "amplify.y*ml", "netlify.toml",
    "vercel.json",
)  # fmt: skip
"""CI systems and hosted builds execute these with the project's secrets."""

_BOTS = (
    "renovate.json", "renovate.json5", ".renovaterc*", ".mergify.yml", "**/.mergify/**",
    "bors.toml",
)  # fmt: skip
"""Bots of the forge read these to merge, upgrade and run commands."""

_HOOKS = (
    "**/.git/**", ".gitmodules", ".gitconfig", ".pre-commit-config.y*ml", ".pre-commit-hooks.y*ml",
    "prek.toml", "**/.husky/**", ".huskyrc*", "**/.githooks/**", "**/.git-hooks/**",
    "lefthook*.y*ml", "lefthook*.toml", "lefthook*.json", ".lefthook*.y*ml", ".lefthook*.toml",
    ".lefthook*.json", "**/.lefthook/**", "**/.lefthook-local/**", ".overcommit.y*ml",
    ".lintstagedrc*", "lint-staged.config.*", ".simple-git-hooks.*", "simple-git-hooks.*",
)  # fmt: skip
"""Git and hook managers run these on every machine that commits or clones."""

_PACKAGES = (
    ".npmrc", ".yarnrc*", "**/.yarn/releases/**", "**/.yarn/plugins/**", "**/.yarn/sdks/**",
    ".pnpmfile.*", ".pnp.*", "pnpm-workspace.yaml", "bunfig.toml", ".bunfig.toml",
    "pip.conf", "pip.ini", ".pypirc", "uv.toml", "poetry.toml", "pdm.toml", ".pdm.toml", ".condarc",
    "**/.cargo/config", "**/.cargo/config.toml", "nuget.config", "**/.bundle/config", ".gemrc",
    "**/.m2/settings*.xml", "**/.swiftpm/configuration/**", ".terraformrc", "terraform.rc",
)  # fmt: skip
"""Package managers read their index, and code to load, from these."""

_WRAPPERS = (
    "**/.mvn/**", "mvnw", "mvnw.cmd", "maven-wrapper.*", "**/gradle/wrapper/**", "gradlew",
    "gradlew.bat", "gradle-wrapper.*", ".sbtopts", ".jvmopts", ".bazelrc", ".bazelversion",
    ".bazeliskrc", "**/tools/bazel", "rust-toolchain", "rust-toolchain.toml",
)  # fmt: skip
"""Every build runs these, or downloads and runs the tool that they name."""

_SHELLS = (
    ".envrc", ".envrc.*", "**/.direnv/**", ".tool-versions", "mise.toml", "mise.*.toml",
    ".mise.toml", ".mise.*.toml", "**/.mise/**", "**/mise/config*.toml", "**/.mise-tasks/**",
    "**/mise-tasks/**", "devbox.json",
)  # fmt: skip
"""direnv, mise, asdf and devbox run these, or programs named in them, in this folder."""

_AGENTS = (
    "AGENTS.md", "AGENTS.*.md", "AGENT.md", "**/.agents/**", "**/.agent/**",
    "CLAUDE.md", "CLAUDE.*.md", "**/.claude/**", "**/.claude-plugin/**", "SKILL.md",
    ".mcp.json", "mcp.json", "GEMINI.md", "**/.gemini/**", "QWEN.md", "**/.qwen/**",
    "**/.cursor/**", ".cursor*", "**/.windsurf/**", ".windsurf*", "**/.clinerules/**",
    ".clinerules*", "**/.cline/**", "**/.roo/**", ".roorules*", ".roomodes", "**/.kilocode/**",
    ".aider*", "**/.codex/**", "**/.opencode/**", "opencode.json*", "copilot-instructions.md",
    "**/.continue/**", ".continuerc*", "**/.junie/**", "**/.kiro/**",
    "**/.amazonq/**", "**/.augment/**", ".augment-guidelines", "**/.goose/**", ".goosehints",
    "**/.trae/**", "**/.openhands/**", "**/.crush/**", "crush.json", ".crush.json", "CRUSH.md",
    "**/.factory/**", "**/.pi/**", "**/.serena/**", "**/.warp/**", "WARP.md", ".rules",
    ".coderabbit.y*ml",
)  # fmt: skip
"""Coding agents, also those of later runs, take instructions and start servers from these."""

_EDITORS = (
    "**/.vscode/*.json", "*.code-workspace", "**/.idea/**", "**/.run/**", "**/.zed/**",
    "**/.fleet/**", "**/.vs/**", ".exrc", ".nvimrc", ".nvim.lua", ".vimrc", ".lvimrc",
    ".dir-locals.el", ".dir-locals-2.el", "*.sublime-project", "**/.externalToolBuilders/**",
    "**/.devcontainer/**", ".devcontainer.json", "devcontainer.json", ".gitpod*", "**/.idx/**",
    "**/.codesandbox/**", ".replit",
)  # fmt: skip
"""Editors and their containers run tasks, programs and extensions from these."""

_OWNERS = ("CODEOWNERS", "OWNERS", "OWNERS_ALIASES")
"""Forges and review bots read the reviewers of a change from these."""

LOCK_FILES = (
    "*.lock", "*.lockfile", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml",
    "bun.lockb", "packages.lock.json", ".terraform.lock.hcl", "go.sum", "go.work.sum",
    "pylock.toml", "pylock.*.toml", "conda-lock.yml", "Package.resolved", "Cartfile.resolved",
    "**/gradle/verification-metadata.xml",
)  # fmt: skip
"""Package managers install exactly the versions in these."""

PROTECTED = (
    *_CI, *_BOTS, *_HOOKS, *_PACKAGES, *_WRAPPERS, *_SHELLS, *_AGENTS, *_EDITORS, *_OWNERS,
    *LOCK_FILES,
)  # fmt: skip
"""All protected files. `--allow-change` and a blueprint's `changes` permit changing some."""
