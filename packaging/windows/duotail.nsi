; The set-up program for Windows: for one user, without an administrator.
; packaging/nsis.py calls makensis with VERSION, FILES (a folder with uv.exe, duotail.lock and the
; wheel), WHEEL (its name) and OUT. uv fetches Python and the packages, each with its hash.
; What users have written lies in %LOCALAPPDATA%\Duotail and stays when Duotail is removed.
Target amd64-unicode  ; Duotail has no 32-bit kernels, and Windows itself says so there
SetCompressor lzma
!include LogicLib.nsh
!include MUI2.nsh
!define NAME "Duotail"
!define REMOVAL "Software\Microsoft\Windows\CurrentVersion\Uninstall\${NAME}"
!define CLASSES "Software\Classes"
Name "${NAME} ${VERSION}"
OutFile "${OUT}"
RequestExecutionLevel user
InstallDir "$LOCALAPPDATA\Programs\${NAME}"
InstallDirRegKey HKCU "Software\${NAME}" "Folder"
ShowInstDetails show
ShowUninstDetails show
VIProductVersion "${NUMBERS}"
VIAddVersionKey ProductName "${NAME}"
VIAddVersionKey ProductVersion "${VERSION}"
VIAddVersionKey FileVersion "${VERSION}"
VIAddVersionKey FileDescription "Set-up of ${NAME}"
VIAddVersionKey LegalCopyright "The Duotail authors, Apache License 2.0"
!define MUI_ABORTWARNING
!insertmacro MUI_PAGE_WELCOME
!insertmacro MUI_PAGE_LICENSE "${LICENCE}"
!insertmacro MUI_PAGE_DIRECTORY
!insertmacro MUI_PAGE_INSTFILES
!define MUI_FINISHPAGE_RUN "$INSTDIR\env\Scripts\pythonw.exe"
!define MUI_FINISHPAGE_RUN_PARAMETERS "-I -m app"
!insertmacro MUI_PAGE_FINISH
!insertmacro MUI_UNPAGE_CONFIRM
!insertmacro MUI_UNPAGE_INSTFILES
!insertmacro MUI_LANGUAGE English
!insertmacro MUI_LANGUAGE German
!insertmacro MUI_LANGUAGE SimpChinese
LangString FETCHING ${LANG_ENGLISH} "Fetching Python and packages (about 140 MB)"
LangString FETCHING ${LANG_GERMAN} "Python und Pakete werden geladen (etwa 140 MB)"
LangString FETCHING ${LANG_SIMPCHINESE} "正在获取 Python 和软件包（约 140 MB）"
LangString FAILED ${LANG_ENGLISH} "It did not work; the lines above say why. Check the network, then start this set-up again: what was fetched is kept."
LangString FAILED ${LANG_GERMAN} "Es ist fehlgeschlagen; warum, steht in den Zeilen darüber. Prüfen Sie das Netz und starten Sie erneut: Geladenes bleibt erhalten."
LangString FAILED ${LANG_SIMPCHINESE} "安装失败，原因见上方各行。请检查网络后重新运行：已获取的内容会保留。"
LangString RUNNING ${LANG_ENGLISH} "Duotail is running. Close its windows, then start this again; nothing was changed."
LangString RUNNING ${LANG_GERMAN} "Duotail läuft. Schließen Sie seine Fenster und starten Sie erneut; nichts wurde geändert."
LangString RUNNING ${LANG_SIMPCHINESE} "Duotail 正在运行。请关闭其窗口后重新运行；没有任何更改。"

; Windows renames no folder with a program that runs: it stays whole until its windows are closed.
!macro MOVE_OLD_AWAY
  RMDir /r "$INSTDIR\env.old"
  ${If} ${FileExists} "$INSTDIR\env\*.*"
    ClearErrors
    Rename "$INSTDIR\env" "$INSTDIR\env.old"
    ${If} ${Errors}
      DetailPrint "$(RUNNING)"
      Abort "$(RUNNING)"
    ${EndIf}
  ${EndIf}
!macroend

!macro RUN ARGUMENTS
  nsExec::ExecToLog '"$INSTDIR\setup\uv.exe" ${ARGUMENTS}'
  Pop $0
  ${If} $0 != 0
    DetailPrint "$(FAILED)"
    Abort "$(FAILED)"
  ${EndIf}
!macroend

Section "Duotail"
  SetOutPath "$INSTDIR\setup"
  File /x *.whl "${FILES}\*.*"
  SetCompress off  ; it is compressed already
  File "${FILES}\${WHEEL}"
  SetCompress auto
  System::Call 'kernel32::SetEnvironmentVariable(t "UV_PYTHON_INSTALL_DIR", t "$INSTDIR\python")'
  System::Call 'kernel32::SetEnvironmentVariable(t "UV_CACHE_DIR", t "$INSTDIR\cache")'
  System::Call 'kernel32::SetEnvironmentVariable(t "UV_NO_CONFIG", t "1")'
  ; The certificates that Windows trusts: a virus scanner or a firm's proxy may have one of its own.
  System::Call 'kernel32::SetEnvironmentVariable(t "UV_SYSTEM_CERTS", t "1")'
  DetailPrint "$(FETCHING)"
  ; The environment is made beside the old one, which goes on working until the new one is whole.
  RMDir /r "$INSTDIR\env.new"
  !insertmacro RUN 'venv --managed-python --python 3.13 --relocatable "$INSTDIR\env.new"'
  !insertmacro RUN 'pip install --python "$INSTDIR\env.new" --require-hashes --link-mode copy -r "$INSTDIR\setup\duotail.lock"'
  !insertmacro RUN 'pip install --python "$INSTDIR\env.new" --no-deps --link-mode copy "$INSTDIR\setup\${WHEEL}"'
  !insertmacro MOVE_OLD_AWAY
  Rename "$INSTDIR\env.new" "$INSTDIR\env"
  RMDir /r "$INSTDIR\env.old"
  RMDir /r "$INSTDIR\cache"
  WriteUninstaller "$INSTDIR\uninstall.exe"
  CreateShortcut "$SMPROGRAMS\${NAME}.lnk" "$INSTDIR\env\Scripts\pythonw.exe" "-I -m app" "$INSTDIR\setup\duotail.ico"
  WriteRegStr HKCU "Software\${NAME}" "Folder" "$INSTDIR"
  WriteRegStr HKCU "${CLASSES}\${NAME}.gguf" "" "GGUF language model"
  WriteRegStr HKCU "${CLASSES}\${NAME}.gguf\DefaultIcon" "" "$INSTDIR\setup\duotail.ico"
  WriteRegStr HKCU "${CLASSES}\${NAME}.gguf\shell\open\command" "" '"$INSTDIR\env\Scripts\pythonw.exe" -I -m app "%1"'
  WriteRegStr HKCU "${CLASSES}\.gguf\OpenWithProgids" "${NAME}.gguf" ""
  WriteRegStr HKCU "${REMOVAL}" "DisplayName" "${NAME}"
  WriteRegStr HKCU "${REMOVAL}" "DisplayVersion" "${VERSION}"
  WriteRegStr HKCU "${REMOVAL}" "Publisher" "The Duotail authors"
  WriteRegStr HKCU "${REMOVAL}" "DisplayIcon" "$INSTDIR\setup\duotail.ico"
  WriteRegStr HKCU "${REMOVAL}" "UninstallString" '"$INSTDIR\uninstall.exe"'
  WriteRegStr HKCU "${REMOVAL}" "QuietUninstallString" '"$INSTDIR\uninstall.exe" /S'
  WriteRegDWORD HKCU "${REMOVAL}" "NoModify" 1
  WriteRegDWORD HKCU "${REMOVAL}" "NoRepair" 1
  System::Call 'shell32::SHChangeNotify(i 0x08000000, i 0, p 0, p 0)'
SectionEnd

Section "Uninstall"
  !insertmacro MOVE_OLD_AWAY
  RMDir /r "$INSTDIR\env.old"
  RMDir /r "$INSTDIR\env.new"
  RMDir /r "$INSTDIR\python"
  RMDir /r "$INSTDIR\cache"
  RMDir /r "$INSTDIR\setup"
  Delete "$INSTDIR\uninstall.exe"
  RMDir "$INSTDIR"
  Delete "$SMPROGRAMS\${NAME}.lnk"
  DeleteRegKey HKCU "${CLASSES}\${NAME}.gguf"
  DeleteRegValue HKCU "${CLASSES}\.gguf\OpenWithProgids" "${NAME}.gguf"
  DeleteRegKey HKCU "${REMOVAL}"
  DeleteRegKey HKCU "Software\${NAME}"
  System::Call 'shell32::SHChangeNotify(i 0x08000000, i 0, p 0, p 0)'
SectionEnd
